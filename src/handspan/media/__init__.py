"""IMAGES AND PDF: made fit for a model in a process of their own, because such files can be hostile (SPEC X4, B).

Holds:   `workers.py`, the processes as other rooms use them, and the images of an owner (read it first); `jobs.py`,
         what both sides send to each other; `child.py`, the beginning and the limits of such a process; `images.py` and
         `pdf.py`, what runs in it.
Imports: core, config. Only the processes load Pillow and pypdf.
To add:  for one more kind of file a job in `jobs.py`, and a module that ends with `serve`.
"""
