"""The process that `apart.run_apart` starts: `python -m bench.child MODULE:FUNCTION RESULT_FILE ARGUMENTS_AS_JSON`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.apart import BenchError


def main(arguments: Sequence[str]) -> None:
    name, answer, parameters = arguments
    module, function = name.split(":")
    try:
        result = getattr(importlib.import_module(module), function)(**json.loads(parameters))
    except MemoryError:
        result = None
    except BenchError as error:
        sys.exit(str(error))
    Path(answer).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
