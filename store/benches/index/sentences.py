#!/usr/bin/env python3
"""Distinct real sentences from the documentation that is installed on this machine, one a line.

    sentences.py OUT [--most N]

Read are documentation comments of Rust sources, docstrings and comments of Python sources, Markdown, reStructuredText and
plain texts, manual pages, and HTML documentation, below the directories in ROOTS. A sentence has 5 to 60 words and is
mostly letters; two that differ only in case, digits or spaces count as one. The order is that of a hash of the
sentence, so that the first N are a fair sample of all, and the same on every machine with the same packages.

Nothing of this is committed: the texts belong to those packages.
"""

import argparse
import gzip
import hashlib
import html
import os
import re
import sys

HOME = os.path.expanduser("~")
ROOTS = [
    f"{HOME}/.cargo/registry/src",
    f"{HOME}/.rustup/toolchains",
    f"{HOME}/.pyenv",
    f"{HOME}/go",
    "/usr/share/doc",
    "/usr/share/man/man1", "/usr/share/man/man2", "/usr/share/man/man3", "/usr/share/man/man4",
    "/usr/share/man/man5", "/usr/share/man/man7", "/usr/share/man/man8",
    "/usr/share/perl", "/usr/lib/python3", "/usr/local", "/usr/lib/node_modules", "/usr/include", "/opt",
]
FILE_BYTES_MAX = 8 << 20

SPLIT = re.compile(r"(?<=[a-z0-9)`'\"][.!?])\s+(?=[A-Z`\"(])")
TAG = re.compile(r"<(script|style|pre)\b.*?</\1>|<[^>]+>", re.S)
MARKUP = re.compile(r"\\f[BIRP]|\\-|\\&|``|\*\*|[|]|\[([^\]]*)\]\([^)]*\)|\[([^\]]*)\]")
FOLD = re.compile(r"[\W\d_]+")
LETTER = re.compile(r"[^\W\d_]")


def paragraphs(path, text):
    """The running text of a file, a paragraph each."""
    name = path.removesuffix(".gz")
    if name.endswith(".rs"):
        lines = [m.group(1) if (m := re.match(r"\s*//[/!] ?(.*)", line)) else "" for line in text.split("\n")]
    elif name.endswith((".py", ".pl", ".pm", ".sh")):
        lines = []
        for at, part in enumerate(re.split(r'"""|\'\'\'', text)):
            if at % 2 == 1:
                lines += part.split("\n")
            else:
                lines += [m.group(1) if (m := re.match(r"\s*# ?(.*)", line)) else "" for line in part.split("\n")]
            lines.append("")
    elif name.endswith((".h", ".hpp", ".c", ".go", ".ts", ".js", ".mjs", ".java")):
        lines = [m.group(1) if (m := re.match(r"\s*(?:\*|//+|/\*+) ?(.*?)(?:\*/)?\s*$", line)) else "" for line in text.split("\n")]
    elif name.endswith((".html", ".htm")):
        text = re.sub(r"</?(p|li|h\d|tr|td|div|dd|dt|section|summary|ul|ol|br|table)\b[^>]*>", "\n\n", text)
        lines = html.unescape(TAG.sub(" ", text)).split("\n")
    elif re.search(r"\.\d\w*$", name):
        lines = ["" if line.startswith((".", "'")) else line for line in text.split("\n")]
    else:
        lines = text.split("\n")
    fenced = False
    gathered = []
    for line in lines:
        line = line.strip()
        if line.startswith(("```", "~~~")):
            fenced = not fenced
            line = ""
        if fenced:
            continue
        starts = re.match(r"([-*+•]|\d+[.)]|#+|:param|:return|@param|@return|>>>|\$) ?", line)
        if not line or starts:
            if gathered:
                yield " ".join(gathered)
            gathered = []
        if line and not line.startswith((">>>", "$", "#!", "..")):
            gathered.append(line)
    if gathered:
        yield " ".join(gathered)


def sentences(path, text):
    for paragraph in paragraphs(path, text):
        if len(paragraph) > 20_000:
            continue
        paragraph = MARKUP.sub(lambda m: m.group(1) or m.group(2) or " ", paragraph)
        for sentence in SPLIT.split(paragraph):
            sentence = " ".join(sentence.split()).strip("-*#>:= ")
            words = sentence.count(" ") + 1
            if 5 <= words <= 60 and len(sentence) <= 500 and len(LETTER.findall(sentence)) >= 0.7 * len(sentence):
                yield sentence


def files():
    wanted = re.compile(r"\.(rs|py|md|rst|txt|pod|pm|pl|h|hpp|go|ts|html|htm|\d\w*)(\.gz)?$|/(README|NEWS|changelog)[^/]*$")
    for root in ROOTS:
        for at, below, names in os.walk(root):
            below[:] = sorted(b for b in below if not os.path.islink(os.path.join(at, b)))
            for name in sorted(names):
                path = os.path.join(at, name)
                if wanted.search(path) and not os.path.islink(path):
                    yield path


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("out")
    args.add_argument("--most", type=int, default=1_200_000)
    args = args.parse_args()
    seen = {}
    read = 0
    for path in files():
        try:
            if os.path.getsize(path) > FILE_BYTES_MAX:
                continue
            with (gzip.open(path) if path.endswith(".gz") else open(path, "rb")) as file:
                text = file.read(FILE_BYTES_MAX).decode("utf-8", "ignore")
        except (OSError, EOFError, ValueError):
            continue
        read += 1
        for sentence in sentences(path, text):
            fold = hashlib.blake2b(FOLD.sub("", sentence.lower()).encode(), digest_size=8).digest()
            seen.setdefault(fold, sentence)
    chosen = [seen[fold] for fold in sorted(seen)[: args.most]]
    with open(args.out, "w", encoding="utf-8") as out:
        out.write("\n".join(chosen) + "\n")
    print(f"{len(seen)} distinct sentences in {read} files; wrote {len(chosen)}", file=sys.stderr)


if __name__ == "__main__":
    main()
