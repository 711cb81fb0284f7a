#!/usr/bin/env python3
"""Runs the notebooks and writes each as a page, and the report of a plan, for a look in a browser.

    build/venv/bin/python python/site/notebook_pages.py FOLDER [NAME...]
    python3 python/site/browser.py FOLDER --pictures PICTURES --whole

NAME: a notebook of python/notebooks, without its ending; all, and the report, without names. The
pages have all pictures, tables and printed texts, and load nothing.
"""

import argparse
import html
import os
import pathlib

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "python" / "notebooks"
STYLE = ("body{font:15px sans-serif;margin:16px;max-width:1000px}pre{overflow-x:auto}"
         "img{max-width:100%;background:#fff}.wide{overflow-x:auto}td,th{padding:2px 8px}"
         "@media(prefers-color-scheme:dark){body{background:#14181c;color:#e6e6e6}}")  # fmt: skip
PLAN = """
import orrery
plan = orrery.plan("llama3-70b", "dgx-h100", gpus=512, tokens="2T", deadline="60 d", budget="2.5M")
print(plan.to_html())
"""


def parts_of(output):
    """Returns the HTML of one output of a cell."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="plot" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        return f'<div class="wide">{data["text/html"]}</div>'
    return f"<pre>{html.escape(output.get('text', data.get('text/plain', '')))}</pre>"


def page_of(notebook, title):
    """Returns a run notebook as a page: texts, code and outputs in their order."""
    out = [f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>{title}</title>"
           f"<style>{STYLE}</style><body>"]  # fmt: skip
    for cell in notebook.cells:
        out.append(f"<pre>{html.escape(cell.source)}</pre>")
        out += [parts_of(output) for output in cell.get("outputs", [])]
    return "\n".join(out)


def run(notebook):
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": NOTEBOOKS}}).execute()
    return notebook


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = str(ROOT / "build" / "python")
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if asked.names and path.stem not in asked.names:
            continue
        page = page_of(run(nbformat.read(path, as_version=4)), path.stem)
        (asked.folder / f"{path.stem}.html").write_text(page)
        print(f"{path.stem}.html", flush=True)
    if not asked.names:
        cell = nbformat.v4.new_code_cell(PLAN)
        run(nbformat.v4.new_notebook(cells=[cell]))
        (asked.folder / "plan.html").write_text(cell.outputs[0]["text"])
        print("plan.html")


if __name__ == "__main__":
    main()
