"""denslice as a part of other libraries, each adapter a file with an extra of its own."""
