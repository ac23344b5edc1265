
import importlib.util, sys
from agent_core.tools.toolset import Static, Merged
from agent_core.tools.function import FunctionTool
from agent_core.tools.builtin import BUILTIN
def load_toolset(folder):
    found = {t.spec.name: t for t in BUILTIN}
    for p in sorted(folder.glob("*.py")):
        name=f"_parley_tools_{p.stem}"
        spec=importlib.util.spec_from_file_location(name,p); m=importlib.util.module_from_spec(spec); sys.modules[name]=m
        spec.loader.exec_module(m)
        found |= {v.spec.name: v for v in vars(m).values() if isinstance(v, FunctionTool)}
    return Static(found)
