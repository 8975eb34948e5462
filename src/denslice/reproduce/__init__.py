"""The paper's tables and figure for any collection and models: encode once, measure cell by cell, write one page."""
