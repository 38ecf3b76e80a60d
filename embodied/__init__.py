"""The control stack: learning, planning, hierarchy, evaluation, export and deployment."""
