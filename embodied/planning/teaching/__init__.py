"""How the embedded planner is taught: wordings, a grammar that composes them, scenes, and the fit."""
