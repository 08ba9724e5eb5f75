// The page starts.

import { ServePage } from "./serve-page.js";

const home = new ServePage(document.getElementById("serve"));
home.root.classList.add("ready");
