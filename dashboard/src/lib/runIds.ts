// What the id of a run tells about it.
/** A scheduled run: `<job>@<instant>`, with nothing after the instant. */
const SCHEDULED = /^(.+)@(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** Why a run waits that may not exist yet: of a scheduled one, the page of its job explains the instant. */
export function whyHref(run: string): string {
  const match = SCHEDULED.exec(run);
  if (match === null) return `/runs/${encodeURIComponent(run)}?tab=why`;
  const [, job = '', year, month, day, hour, minute, second] = match;
  return `/jobs/${encodeURIComponent(job)}?tab=why&instant=${encodeURIComponent(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)}`;
}
