"""Programs on other machines: a Client has the methods of an Index, and asks a server of denslice."""
