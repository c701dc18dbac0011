/** Highlighted languages, in a chunk of their own. */

import { common, createLowlight } from "lowlight";

export const languages = createLowlight(common);
