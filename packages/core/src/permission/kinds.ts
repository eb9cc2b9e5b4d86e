/** What a tool declares about a parameter. Nothing declared is `text`. */
export type ParameterKind = 'command' | 'path' | 'url' | 'text';
