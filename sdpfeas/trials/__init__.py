"""Trials: functions run in a process of their own, under limits of time and memory that hold.

A study cell, an experiment of the paper, a benchmark and an isolated solve are all trials. This room knows
none of them: what a trial runs is named, and imported in the worker.
"""
