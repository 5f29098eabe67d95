"""From a video to a trained model, without a setting.

In reading order: `decisions` (settings that follow from what was measured of a video).
"""
