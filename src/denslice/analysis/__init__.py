"""How a text becomes words: Unicode, the words as people write them, the language of a text, and its stems."""
