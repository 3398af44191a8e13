"""Whether two engines write the same answers: 20 fixed prompts, and the first difference of each.

python -m models.demo.agreement run models/demo/checkpoint cpu.json --device cpu --dtype float32
python -m models.demo.agreement run models/demo/checkpoint gpu.json --device cuda --dtype float32
python -m models.demo.agreement compare models/demo/checkpoint cpu.json gpu.json
"""
