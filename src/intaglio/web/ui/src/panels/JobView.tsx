/** The progress of long work, with a button that stops it, and why it failed. */

import type { Job } from "./useJob.ts";

export function JobView({ job }: { job: Job }) {
  return (
    <>
      {job.isRunning.value && (
        <div role="status">
          <progress {...(job.part.value === null ? {} : { value: job.part.value })} max={1} aria-label="How far it is" />
          <p class="pages">
            <span class="quiet">{job.note.value || "working"}</span>
            <button onClick={job.stop}>Stop</button>
          </p>
        </div>
      )}
      {job.fault.value && (
        <p class="bad" role="alert">
          {job.fault.value}
        </p>
      )}
    </>
  );
}
