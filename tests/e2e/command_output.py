"""What a command printed, of one that has to end as expected."""

import subprocess


def output_of(*command, expected=0, **how):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **how)
    assert done.returncode == expected, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout
