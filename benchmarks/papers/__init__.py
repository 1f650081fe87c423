"""The experiments of four papers on calibration, rerun through the public functions of this package.

    python -m benchmarks.papers

One module for each paper: ``smooth_ece`` (Blasiok and Nakkiran 2024), ``logit_smoothed`` (Chidambaram et al.
2024), ``cutoff`` (Rossellini et al. 2025) and ``tcal`` (Lee et al. 2023; ``tcal_networks`` has its tables).
Each has ``PAPER``, its name in the table, and ``run(study)``, which adds a row for each experiment and draws
the figures. ``study`` contains the shared tools, ``population`` weighted samples that represent a
distribution, and ``real_data`` the readers of files. To add an experiment, write a function that calls
``study.number`` or ``study.holds``, and call it in ``run``.
"""
