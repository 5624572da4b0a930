"""Run the notebooks and write them with their outputs: `python notebooks/refresh.py`; with names, these alone.

Each notebook is a text to edit (`1_walk.py`) and, made from it, a notebook with outputs (`1_walk.ipynb`).
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
"""Variables that could change the output of a notebook."""


def execute(text: Path, **environment: str) -> nbformat.NotebookNode:
    """Return the notebook of a text, run in a fresh kernel whose environment has only neutral variables.

    Args:
        text: The jupytext file.
        environment: More variables for the kernel.

    Returns:
        The notebook with outputs.  Progress displays, which are empty when a cell has ended, are removed.
    """
    notebook = jupytext.read(text)
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", {}
    outside = {name: value for name, value in os.environ.items() if not ENVIRONMENT.match(name)}
    where = {"metadata": {"path": str(text.parent)}}
    quiet = Config(KernelManager={"transport_encryption": "auto"})  # otherwise the kernel warns about its absence
    client = NotebookClient(notebook, timeout=50, record_timing=False, resources=where, config=quiet)
    client.execute(env={**outside, **environment})
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if any(output.get("data", {"": "else"}).values())]
    return notebook


if __name__ == "__main__":
    for text in [path for path in TEXTS if not sys.argv[1:] or path.stem in sys.argv[1:]]:
        nbformat.write(execute(text), text.with_suffix(".ipynb"))
        print(text.with_suffix(".ipynb").name, file=sys.stderr)
