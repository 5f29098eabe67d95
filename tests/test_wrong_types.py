"""Arguments of another type than the documented one are refused in one line.

In the other tests, the checks of types and shapes would refuse them first, so these run in a
process without these checks.
"""

import json
import subprocess
import sys

PREPARE = """
import json, torch, gswm
from dataclasses import replace
from gswm import Protocol, Track
from gswm.eval.baselines import Baseline
model, clips = gswm.build("interaction"), gswm.build("clips")
video = torch.zeros(1, 2, 3, 64, 64)
large = torch.zeros(1, 1, 3, 128, 128)
track = model.infer(video)
state = track.state_at(-1)
object.__setattr__(state.objects, "id", torch.arange(10)[None])
state.objects.o.pres.fill_(1)
episodes = next(gswm.world("interaction").episodes(seed=1, n=1))
rules = Protocol("x", 2, 2, ("center",))
film = "src/gswm/data/films/cars.mp4"
"""
CASES = {
    "model.imagine(video, 2.0, 1)": "given is 2.0; it must be an integer",
    "model.imagine(video, 2, 1.5)": "steps is 1.5; it must be an integer",
    "model.imagine(video, 2, 1, futures=None)": "futures is None; it must be an integer",
    "model.imagine(video, 2, 1, generator=3)": "must be a torch.Generator, not an int",
    "model.infer(video, discover='now')": "discover must be",
    "model.infer_after(state, video, discover='now')": "discover must be",
    "model.imagine_from(None, 2)": "imagine_from needs a state",
    "clips.infer(large, background=large[0, 0].numpy())": "must be a torch tensor",
    "clips.infer(large, background=large[0, 0].long())": "a background must be uint8",
    "state.move(0, 'ab')": "xy must be 2 numbers, not 'ab'",
    "state.move(0, None)": "xy must be 2 numbers, not None",
    "state.move(0, (0.0, 0.0, 0.0))": "xy must be 2 numbers",
    "state.change(0, depth='far')": "depth must be a number",
    "track.draw(video, scale=1.5)": "scale is 1.5; it must be an integer",
    "track.save('a.gif', video, fps='fast')": "fps is 'fast'; it must be a number",
    "gswm.build(model.cfg)": "a recipe or the name of one, not a GSWMConfig",
    "gswm.load(None)": "the name or path of weights, not NoneType",
    "gswm.fit(film, learn='looks')": "learn is 'looks': it must be 'all' or 'motion'",
    "gswm.fit(film, minutes='few')": "minutes is 'few'; it must be a number",
    "gswm.open_video(film, frames=2.5)": "frames is 2.5; it must be an integer",
    "gswm.open_video(film, region=(0, 0, float('nan'), 5))": "the region is (0, 0, nan, 5)",
    "gswm.open_video(film, region=(0, 0))": "the region is (0, 0)",
    "gswm.track(film, model, region=5)": "the region is 5",
    "gswm.fit(film, region=(0, 0, 5.5, 5))": "the region is (0, 0, 5.5, 5)",
    "gswm.open_video(0)": "a video must be the path of a file",
    "gswm.track(video, model)": "of a folder of images, not a Tensor",
    "gswm.fit(None)": "not a NoneType",
    "next(gswm.world('maze').episodes(1.5, 1))": "seed is 1.5; it must be an integer",
    "gswm.evaluate(5, episodes, rules)": "a model, its name or a baseline, not an int",
    "gswm.evaluate(model, episodes, None)": "a gswm.Protocol or its name",
    "gswm.evaluate(model, video, rules)": "expected gswm.Episodes",
    "gswm.evaluate(model, [None], rules)": "expected gswm.Episodes",
    "gswm.evaluate(model, replace(episodes, video=video), rules)": "must be uint8",
    "gswm.evaluate(model, episodes, rules, seed=1.5)": "seed is 1.5",
    "gswm.evaluate(model, episodes, replace(rules, metrics=['center']))": "must be a tuple",
    "gswm.evaluate(model, episodes, replace(rules, metrics=('mean',)))": "unknown metric mean",
    "gswm.evaluate(model, episodes, replace(rules, posterior='mode'))": "'mean' or 'sample'",
    "gswm.register_protocol(None)": "register a Protocol, not NoneType",
}
RUN = """
said = {}
for case in json.loads(CASES):
    try:
        eval(case)
        said[case] = "nothing"
    except gswm.UserError as error:
        said[case] = str(error)
    except Exception as error:
        said[case] = repr(error)
print(json.dumps(said))
"""


def test_a_wrong_type_is_named_in_one_line() -> None:
    code = f"{PREPARE}\nCASES = {json.dumps(list(CASES))!r}\n{RUN}"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    wrong = {case: said[case] for case, wanted in CASES.items() if wanted not in said[case]}
    assert not wrong
    assert all(len(line.splitlines()) == 1 for line in said.values())
