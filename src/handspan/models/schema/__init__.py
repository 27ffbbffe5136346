"""The schema compiler: a tool's JSON Schema in the subset that each model API accepts. Read `lowering.py` first."""
