/** The bundle's entry: the operator's page takes the whole document. */

import { mount } from "./app.js";

mount(document.body);
