"""A program for Blender's own Python: draws the scenes of one file into another.

    python blender_program.py IN.npz OUT.npz

It needs only bpy and numpy, since bpy requires an older numpy than gswm. Masks are drawn in a
second pass with one ray per pixel, where the color of an object is its number.
"""

import importlib
import math
import os
import sys
import tempfile
from typing import Any

import numpy as np

SPHERE, CYLINDER, CUBE = 1, 2, 3
STEP = 20
"""Difference between the colors of two objects in a mask."""


def main(source: str, target: str) -> None:
    """Draw every frame."""
    bpy: Any = importlib.import_module("bpy")
    held = np.load(source)
    empty(bpy, held)
    video, masks = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "frame.png")
        for frame in range(len(held["shapes"])):
            objects = build(bpy, held, frame)
            if int(held["samples"]):
                materials(bpy, held, frame, objects)
                video.append(draw(bpy, path, int(held["samples"]))[..., :3])
            paint(bpy, objects)
            masks.append((draw(bpy, path, 0)[..., 0] + STEP // 2) // STEP)
            for _, each in objects:
                mesh = each.data
                bpy.data.objects.remove(each)
                bpy.data.meshes.remove(mesh)
            for material in [m for m in bpy.data.materials if not m.users]:
                bpy.data.materials.remove(material)
    size = int(held["size"])
    frames = np.array(video, np.uint8).reshape(-1, size, size, 3)
    np.savez(target, video=frames, masks=np.array(masks, np.uint8))


def empty(bpy: Any, held: Any) -> None:
    """Create plane, lights and camera."""
    vector: Any = importlib.import_module("mathutils").Vector
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.render.resolution_x = scene.render.resolution_y = int(held["size"])
    scene.render.resolution_percentage = 100
    scene.render.image_settings.file_format = "PNG"
    scene.world = bpy.data.worlds.new("world")
    scene.world.use_nodes = True

    camera = bpy.data.cameras.new("camera")
    camera.lens_unit = "FOV"
    camera.angle = math.radians(float(held["field_of_view"]))
    scene.camera = bpy.data.objects.new("camera", camera)
    scene.collection.objects.link(scene.camera)
    aim(scene.camera, vector(held["camera"]), vector(held["target"]))

    for at, radius, power, color in zip(
        *(held["light_positions"], held["light_radii"]),
        *(held["light_powers"], held["light_colors"]),
        strict=True,
    ):
        light = bpy.data.lights.new("light", "AREA")
        light.shape, light.size = "DISK", 2 * float(radius)
        # A disk of power P gives P / (π d²), and a white surface sends back a π-th part of it.
        light.energy = float(power) * math.pi**2 * float(np.square(at).sum())
        light.color = tuple(map(float, color))
        one = bpy.data.objects.new("light", light)
        one.visible_camera = False
        scene.collection.objects.link(one)
        aim(one, vector(at), vector((0, 0, 0)))

    bpy.ops.mesh.primitive_plane_add(size=400)
    plane = bpy.context.object
    plane.name = "plane"
    gray = float(held["ground"])
    look(bpy, plane, (gray, gray, gray), roughness=1.0, metallic=0.0, specular=0.0)
    scene["ambient"] = float(held["ambient"])
    scene["ground"] = gray


def aim(one: Any, at: Any, target: Any) -> None:
    """Place an object, directed at a point."""
    one.location = at
    one.rotation_euler = (target - at).to_track_quat("-Z", "Y").to_euler()


def build(bpy: Any, held: Any, frame: int) -> list[tuple[int, Any]]:
    """Create the objects of a frame, with their slots."""
    made = []
    for slot, shape in enumerate(held["shapes"][frame]):
        radius = float(held["radii"][frame, slot])
        x, y, yaw = map(float, held["poses"][frame, slot])
        half = radius / math.sqrt(2) if shape == CUBE else radius
        where = {"location": (x, y, half), "rotation": (0, 0, yaw)}
        if shape == SPHERE:
            bpy.ops.mesh.primitive_uv_sphere_add(
                radius=radius, segments=128, ring_count=64, **where
            )
            bpy.ops.object.shade_smooth()
        elif shape == CYLINDER:
            bpy.ops.mesh.primitive_cylinder_add(
                radius=radius, depth=2 * radius, vertices=128, **where
            )
        elif shape == CUBE:
            bpy.ops.mesh.primitive_cube_add(size=2 * half, **where)
        else:
            continue
        made.append((slot, bpy.context.object))
    return made


def materials(bpy: Any, held: Any, frame: int, objects: list[tuple[int, Any]]) -> None:
    """Create rubber, metal, and the ambient light."""
    scene = bpy.context.scene
    scene.view_settings.view_transform = "Standard"
    background(scene, float(scene["ambient"]))
    gray = float(scene["ground"])
    look(bpy, bpy.data.objects["plane"], (gray,) * 3, roughness=1.0, metallic=0.0, specular=0.0)
    for slot, each in objects:
        metal = bool(held["materials"][frame, slot])
        share = 1.0 if metal else float(held["rubber"])
        color = tuple(share * float(c) for c in held["colors"][frame, slot])
        rough = {"roughness": 0.25, "metallic": 1.0} if metal else {"roughness": 0.6, "metallic": 0}
        look(bpy, each, color, specular=0.3, **rough)


def look(
    bpy: Any, one: Any, color: tuple, roughness: float, metallic: float, specular: float
) -> None:
    """Assign a material to an object."""
    material = bpy.data.materials.new("look")
    material.use_nodes = True
    inputs = material.node_tree.nodes["Principled BSDF"].inputs
    inputs["Base Color"].default_value = (*color, 1)
    inputs["Roughness"].default_value = roughness
    inputs["Metallic"].default_value = metallic
    inputs["Specular IOR Level"].default_value = specular
    dress(one, material)


def dress(one: Any, material: Any) -> None:
    """Replace the material of an object."""
    one.data.materials.clear()
    one.data.materials.append(material)


def paint(bpy: Any, objects: list[tuple[int, Any]]) -> None:
    """Paint everything black except the objects, which emit the color of their number."""
    scene = bpy.context.scene
    scene.view_settings.view_transform = "Raw"
    background(scene, 0.0)
    for number, each in [(0, bpy.data.objects["plane"]), *((s + 1, o) for s, o in objects)]:
        material = bpy.data.materials.new("number")
        material.use_nodes = True
        tree = material.node_tree
        tree.nodes.clear()
        shine, out = (tree.nodes.new(f"ShaderNode{k}") for k in ("Emission", "OutputMaterial"))
        value = number * STEP / 255
        shine.inputs["Color"].default_value = (value, value, value, 1)
        tree.links.new(shine.outputs["Emission"], out.inputs["Surface"])
        dress(each, material)


def background(scene: Any, strength: float) -> None:
    """Set the ambient light."""
    scene.world.node_tree.nodes["Background"].inputs["Color"].default_value = (1, 1, 1, 1)
    scene.world.node_tree.nodes["Background"].inputs["Strength"].default_value = strength


def draw(bpy: Any, path: str, samples: int) -> np.ndarray:
    """The picture as bytes; with 0 samples, one ray through the center of each pixel."""
    scene = bpy.context.scene
    scene.cycles.samples = samples or 1
    scene.cycles.use_denoising = False
    scene.cycles.use_adaptive_sampling = False
    scene.cycles.pixel_filter_type = "BLACKMAN_HARRIS" if samples else "BOX"
    scene.cycles.filter_width = 1.5 if samples else 0.01
    scene.render.dither_intensity = 0.0
    scene.render.filepath = path
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(path)
    image.colorspace_settings.name = "Non-Color"
    width, height = image.size
    pixels = np.array(image.pixels[:], np.float32).reshape(height, width, -1)[::-1]
    bpy.data.images.remove(image)
    return np.round(pixels * 255).astype(np.uint8)


if __name__ == "__main__":
    main(*sys.argv[1:3])
