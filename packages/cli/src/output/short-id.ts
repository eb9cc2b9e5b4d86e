/**
 * Ids begin with the time at which they were made, so those of one minute begin alike. Their ends are
 * random: a terminal shows the last 8 characters.
 */
const shortLength = 8;
const wholeForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function isId(text: string): boolean {
  return wholeForm.test(text);
}

export function shortId(id: string): string {
  return isId(id) ? id.slice(-shortLength) : id;
}
