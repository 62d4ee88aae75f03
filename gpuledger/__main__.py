"""`python -m gpuledger`."""

from gpuledger.cli import main

main()
