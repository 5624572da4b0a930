"""Runs the notebooks and writes them with their outputs: `python notebooks/refresh.py`.

Each is kept as text (`1_walk.py`, the one to edit) and, made from it, as a notebook with outputs (`1_walk.ipynb`).
"""

import os
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parent
TEXTS = sorted(FOLDER.glob("[0-9]*.py"))
ENVIRONMENT = re.compile(r"AGENTKIT_|.*_(KEY|TOKEN|SECRET|PASSWORD)$|PYTEST_|FORCE_COLOR|NO_COLOR")
"""Variables that could change what a notebook says."""


def executed(text: Path, **environment: str) -> nbformat.NotebookNode:
    """The notebook of a text, run in a fresh kernel with no variables from outside but `environment`.

    What was shown while a cell worked, and is empty when it is done, is left out.
    """
    notebook = jupytext.read(text)
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", {}
    outside = {name: value for name, value in os.environ.items() if not ENVIRONMENT.match(name)}
    where = {"metadata": {"path": str(text.parent)}}
    quiet = Config(KernelManager={"transport_encryption": "auto"})  # else the kernel warns that it has none
    client = NotebookClient(notebook, timeout=50, record_timing=False, resources=where, config=quiet)
    client.execute(env={**outside, **environment})
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if any(output.get("data", {"": "else"}).values())]
    return notebook


if __name__ == "__main__":
    for text in TEXTS:
        nbformat.write(executed(text), text.with_suffix(".ipynb"))
        print(text.with_suffix(".ipynb").name, file=sys.stderr)
