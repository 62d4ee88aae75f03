"""No process of gpuledger uses pandas. Where it is installed, Arrow would import it to ask whether a value is one of
its, which takes half a second and 40 MiB."""

import sys


def refuse_pandas() -> None:
    sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("gpuledger does without it", name=name)
