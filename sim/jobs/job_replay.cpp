#include "sim/jobs/job_replay.hpp"

#include <memory>
#include <utility>

#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "sim/jobs/recorded_jobs.hpp"
#include "sim/world/sim_backend.hpp"
#include "traces/report/report.hpp"

namespace orrery {
namespace {

EstimateChoice estimates_of(const JobReplay& replay) {
  return estimate_choice(replay, replay.has_seed() ? replay.seed() : 1);
}

void write_tables(const RecordedJobs& recorded, const JobsReport& report, JobTables& tables) {
  RecordedUse use(report.nodes() * report.gpus_per_node());
  for (std::size_t i = 0; i < recorded.rows(); ++i) use.add(*recorded.row(i).job);
  Backtest backtest(use);
  tables.jobs = jobs_header();
  for (std::size_t i = 0; i < recorded.rows(); ++i) {
    const JobRow row = recorded.row(i);
    write_row(row, tables.jobs);
    backtest.add(row);
  }
  tables.series = series_csv(recorded.load(), report.nodes() * report.gpus_per_node());
  tables.groups = groups_csv(report);
  tables.backtest = backtest.rows();
}

}  // namespace

JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay, Policy& policy,
                       const std::string& record_path, JobTables* tables) {
  const Cluster cluster = cluster_of(replay);
  SimBackend backend(cluster, {Kinds<Action>::of<Assign>(), {}});
  auto made = std::make_unique<RecordedJobs>(std::move(jobs), backend.world(), backend.teller(),
                                             estimates_of(replay));
  const RecordedJobs& recorded = *made;
  backend.add(std::move(made));
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  // What nobody asked for is not hashed: it costs more than the replay.
  Recorder recorder(backend, policy, header, {.path = record_path, .hash = !record_path.empty()});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  JobsReport report;
  report.set_decisions(drive(policy, recorder, context));
  recorder.finish();
  recorded.fill(report);
  report.set_policy(replay.policy());
  report.set_placement(replay.placement());
  report.set_nodes(replay.nodes());
  report.set_gpus_per_node(replay.gpus_per_node());
  report.set_events(recorder.events());
  report.set_estimates(estimates_of(replay).kind);
  if (tables != nullptr) write_tables(recorded, report, *tables);
  if (record_path.empty()) return report;
  report.set_decision_log_sha256(recorder.log_sha256());
  report.set_decision_trace_sha256(recorder.trace_sha256());
  return report;
}

JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay,
                       const std::string& record_path, JobTables* tables) {
  return replay_jobs(std::move(jobs), replay, *make_stack(replay), record_path, tables);
}

}  // namespace orrery
