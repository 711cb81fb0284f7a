// Any bytes as a job log, leniently and strictly: jobs whose counts add up and that are written and
// read again, as CSV and as a workload of Batsim, or a refusal with its place.
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "traces/jobs/batsim_workload.hpp"
#include "traces/jobs/job_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool strict : {false, true}) {
    try {
      const orrery::JobLog log = orrery::parse_job_log("fuzz", text, {.strict = strict});
      const orrery::TraceQuality& quality = log.quality;
      if (quality.rows() != quality.jobs() + quality.passed_over() + quality.rejected()) {
        std::abort();
      }
      const std::string written = orrery::job_trace_csv(log.jobs);
      if (orrery::parse_job_log("again", written).jobs.size() != log.jobs.size()) std::abort();
      const std::string workload = orrery::write_batsim_workload(log.jobs, 1).text;
      if (orrery::parse_job_log("batsim", workload).quality.rows() != log.jobs.size()) {
        std::abort();
      }
    } catch (const orrery::Error& error) {
      if (error.kind() != orrery::ErrorKind::bad_input || !error.source_place()) std::abort();
    }
  }
  return 0;
}
