"""Facial chains: multipliers that prove, one after the other, that every point lies in a smaller face.

``chain`` is what a claim holds, ``replay`` walks it in integers, ``case`` judges what is at its end, and
``words`` tells it.
"""
