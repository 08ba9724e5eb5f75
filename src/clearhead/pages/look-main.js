// A page with its document inside: shown at once.

import { show } from "./look.js";

show(JSON.parse(document.getElementById("data").textContent), document.getElementById("look"));
