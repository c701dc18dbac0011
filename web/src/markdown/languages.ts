/** The languages code is coloured in. A chunk of its own. */

import { common, createLowlight } from "lowlight";

export const languages = createLowlight(common);
