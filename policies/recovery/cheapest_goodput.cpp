#include "policies/recovery/cheapest_goodput.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/recovery/ways.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {

Needs CheapestGoodput::needs() const {
  const auto assigns = Kinds<Action>::of<Assign>();
  return {.actions = saves_ ? assigns | Kinds<Action>::of<Save>() : assigns,
          .settings = {},
          .step_times = true};
}

void CheapestGoodput::start(Context& context, const Cluster&,
                            const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const CheapestGoodputParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  if (given != nullptr) parameters_ = *given;
  fill_defaults(parameters_);
  saves_ = offers_save(context.backend);
  planned_.set_rules({.saves = saves_, .grows = false});  // return_home() grows
}

void CheapestGoodput::observe(Context&, const Observation& seen, DecisionList& decisions) {
  std::set<JobId> hit;
  const bool changed = planned_.read_parts(seen);
  for (const Event& event : seen.events) {
    if (const auto* done = std::get_if<StepsDone>(&event)) {
      jobs_[done->job].step_s = to_seconds(done->duration) / static_cast<double>(done->count);
    } else if (const auto* started = std::get_if<JobStarted>(&event)) {
      Watched& job = jobs_[started->job];
      if (job.home.gpus.empty()) job.home = started->where;
    } else if (const auto* over = std::get_if<JobDone>(&event)) {
      jobs_.erase(over->job);
    } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
      hit.insert(lost->job);
    } else if (const auto* held = std::get_if<JobHeld>(&event)) {
      hit.insert(held->job);
    }
  }
  for (const auto& [id, of] : jobs_) {
    if (changed && of.waits) hit.insert(id);
  }
  for (const JobInfo& job : seen.jobs) {  // an assignment to the part is void
    if (changed && lacks_recovery(job)) hit.insert(job.spec.id);
  }
  for (const JobId id : hit) {
    const JobInfo* job = seen.jobs.find(id);
    if (job == nullptr || job->lost.empty()) continue;
    if (job->next && (job->phase != JobPhase::held || job->is_restarting)) continue;
    decide_recovery(seen, *job, decisions);
  }
  if (changed) return_home(seen, decisions);
  planned_.observe(seen, changed, decisions);
  decisions.rest();
}

std::vector<CheapestGoodput::Way> CheapestGoodput::ways(
    const Observation& seen, const JobInfo& job, double step_s,
    const CheapestGoodputParameters& parameters) {
  const auto gpus = static_cast<double>(job.gpus.size());
  const std::vector<bool> lost = lost_replicas(job);
  const auto replicas = static_cast<double>(std::count(lost.begin(), lost.end(), true));
  const double gone = replicas * job.layout.ranks_per_replica();
  const bool others_work = job.now.get<OnLoss>().response != LossResponse::hold &&
                           can_go_on(job) && !job.is_corrupted;
  const double regroup = to_seconds(parameters.regroup());
  const double replacement = to_seconds(parameters.replacement());
  const double repair = to_seconds(parameters.repair());
  const double again = static_cast<double>(job.step - std::min(job.step, job.saved)) * step_s;
  const double restart = gpus * (to_seconds(parameters.restart()) + regroup + again);
  const bool peers = parameters.peers() && gone < gpus && !job.is_corrupted;

  std::vector<Way> found;
  const double replace = gpus * regroup + (others_work ? gone : gpus) * replacement;
  if (auto where = whole_again(seen, job)) {
    if (peers) found.push_back({replace, "replacement", where, StateFrom::peer});
    found.push_back({restart, "restart", where, kept_state(job)});
  }
  if (auto where = smaller(job); where && peers) {
    const double left = static_cast<double>(job.spec.steps - job.step) * step_s;
    const double slower = gone * (job.spec.steps > 0 ? std::min(repair, left) : repair);
    const double back = gpus * regroup + gone * replacement;
    found.push_back({gpus * regroup + slower + back, "fewer", std::move(where), StateFrom::peer});
  }
  const double idle = (others_work && peers ? gone : gpus) * repair;
  found.push_back({idle + (peers ? replace : restart), "wait", {}, StateFrom::none});
  std::stable_sort(found.begin(), found.end(),
                   [](const Way& a, const Way& b) { return a.cost < b.cost; });
  return found;
}

void CheapestGoodput::decide_recovery(const Observation& seen, const JobInfo& job,
                                      DecisionList& decisions) {
  Watched& of = jobs_[job.spec.id];
  const std::vector<Way> found = ways(seen, job, of.step_s, parameters_);
  const Way& best = found.front();
  of.waits = !best.where.has_value();
  if (of.waits) return;
  std::string why = fmt::format("{}: {:.4g} GPU-s", best.name, best.cost);
  for (std::size_t i = 1; i < found.size(); ++i) {
    why += fmt::format(", {} {:.4g}", found[i].name, found[i].cost);
  }
  decisions.add(Assign{job.spec.id, best.where->gpus, best.where->layout, best.state},
                std::move(why));
}

void CheapestGoodput::return_home(const Observation& seen, DecisionList& decisions) {
  for (const auto& [id, of] : jobs_) {
    const JobInfo* job = seen.jobs.find(id);
    const bool small = job != nullptr && job->phase == JobPhase::running && job->lost.empty() &&
                       !job->next && job->layout.data < of.home.layout.data;
    if (!small) continue;
    const auto where = back_home(seen, *job, of.home);
    if (!where) continue;
    Decision& back = decisions.add(Assign{id, where->gpus, where->layout, StateFrom::peer},
                                   "all of its hardware is back");
    back.at_step = job->step + 1;
  }
}

void CheapestGoodput::save(Archive& archive) const {
  archive.clear();
  ByteWriter write(archive);
  planned_.save_to(write);
  for (const auto& [id, of] : jobs_) {
    write(id.value);
    write(of.step_s);
    write(of.waits);
    std::vector<std::uint32_t> runs;
    for (const GpuRuns::Run& run : of.home.gpus.runs()) {
      runs.push_back(run.first);
      runs.push_back(run.count);
    }
    write(runs);
    const ParallelLayout& layout = of.home.layout;
    for (const std::uint32_t size : {layout.tensor, layout.context, layout.pipeline, layout.data}) {
      write(size);
    }
    write(layout.pipeline_last);
  }
}

void CheapestGoodput::load(const Archive& archive) {
  jobs_.clear();
  ByteReader read(archive);
  planned_.load_from(read);
  while (!read.is_at_end()) {
    JobId id{};
    Watched of;
    std::vector<std::uint32_t> runs;
    read(id.value);
    read(of.step_s);
    read(of.waits);
    read(runs);
    for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
      of.home.gpus.append_run({runs[i], runs[i + 1]});
    }
    ParallelLayout& layout = of.home.layout;
    for (std::uint32_t* size : {&layout.tensor, &layout.context, &layout.pipeline, &layout.data}) {
      read(*size);
    }
    read(layout.pipeline_last);
    jobs_[id] = std::move(of);
  }
}

}  // namespace orrery
