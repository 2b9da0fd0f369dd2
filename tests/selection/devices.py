"""What the tests of a GPU have in common: whether there is one, and that nobody needs one."""

import subprocess
import sys

import pytest
import torch

needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


def check_that_the_cpu_is_the_default(script: str) -> None:
    """Run a program that makes `either`: what comes without a device, and with the CPU as one.

    The two are the same, and torch is not loaded for them.
    """
    program = f"import sys, numpy, chaffinch\n{script}\n"
    program += "print(either[0] == either[1], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr
