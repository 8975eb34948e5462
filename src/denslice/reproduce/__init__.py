"""The paper's tables and figure, for any collection and any models: encode once, measure cell by cell, write pages."""
