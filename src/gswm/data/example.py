"""A short example video: two cars, recorded by a fixed camera."""

from pathlib import Path

CARS = Path(__file__).parent / "films" / "cars.mp4"
"""7 seconds, 320 × 180 pixels."""
CREDIT = (
    "An excerpt of car-detection.mp4 from github.com/intel-iot-devkit/sample-videos, scaled down; "
    "CC BY 4.0, creativecommons.org/licenses/by/4.0."
)
