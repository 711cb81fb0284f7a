#include "live/run/requirements.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/fabric/nccl_fabric.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/training/plan_codecs.hpp"
#include "policies/compression/fixed_codec.hpp"
#include "policies/handover/hand_over.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/fault_script.hpp"
#include "traces/scenario/live_fabric.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::live {
namespace {

void require(bool condition, const char* message) {
  if (!condition) throw Error(ErrorKind::bad_input, message);
}

/// Returns true if the fault ends processes of ranks.
bool ends_ranks(const Fault& fault) {
  return fault.kill() || fault.stop() || (fault.down() && part_kind(fault) <= PartKind::node);
}

bool on_links(const Fault& fault) {
  return fault.has_link_slow() || fault.has_link_down() || part_kind(fault) == PartKind::nic;
}

void check_fault(const Fault& fault, const std::string& place, LiveFabric fabric) {
  const auto refuse = [&](int number, const std::string& why) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}.{}: {}", place,
                            Fault::descriptor()->FindFieldByNumber(number)->name(), why));
  };
  const std::optional<PartKind> part = part_kind(fault);
  if (part && *part > PartKind::nic) {
    refuse(fault.target_case(), fmt::format("live mode injects faults into ranks, GPUs, nodes and "
                                            "NICs; it has no {} of its own",
                                            name_of(*part)));
  }
  if (on_links(fault) && fabric == LiveFabric::nccl) {
    refuse(fault.kind_case(),
           "expected no fault of links with NCCL, whose traffic cannot be slowed or cut; use "
           "--fabric grpc");
  }
  if (fault.has_corrupted()) {
    refuse(Fault::kCorruptedFieldNumber,
           "expected a fault without 'corrupted', which only the simulator has; a live run finds "
           "flipped bits of its state by survival.verify_every");
  }
  const bool cut = fault.has_link_down() || (fault.has_down() && part == PartKind::nic);
  if (cut && !fault.has_until_time() && !fault.has_for_()) {
    refuse(fault.kind_case(),
           "expected an end of the fault, because the job stalls until the link is up; set "
           "until_time, "
           "or 'for' together with at_time");
  }
}

/// Returns a fault of each kind that can be drawn.
std::vector<Fault> faults_of_kinds(const Failures& failures) {
  std::vector<Fault> faults;
  for (const FailureKind& kind : failure_kinds(failures)) {
    if (!std::isfinite(part_mtbf(kind)) || failures.scale() == 0) continue;
    Fault& fault = faults.emplace_back(fault_of_kind(kind, 0));
    fault.set_at_time(1);
    if (fault.has_down()) fault.set_for_(1);
    if (kind.has_corrupted()) fault.set_corrupted(1);
  }
  return faults;
}

/// Throws bad_input for a fault that live mode cannot inject, or that a failure may cause.
void check_faults(const RunRequest& request) {
  const auto& faults = request.scenario().faults();
  const std::vector<Fault> drawn = request.scenario().has_failures()
                                       ? faults_of_kinds(request.scenario().failures())
                                       : std::vector<Fault>{};
  const bool kills = std::any_of(faults.begin(), faults.end(), ends_ranks) ||
                     std::any_of(drawn.begin(), drawn.end(), ends_ranks);
  require(!kills || !request.has_rendezvous(),
          "faults: expected no kill or stop with --rendezvous, whose ranks are other engines' "
          "processes; kill them there");
  for (int i = 0; i < faults.size(); ++i) {
    check_fault(faults[i], fmt::format("faults[{}]", i), live_fabric(request));
  }
  for (const Fault& fault : drawn) {
    check_fault(fault, fmt::format("failures: '{}'", fault.cause()), live_fabric(request));
  }
}

/// Throws bad_input if the run must be reproducible, independent of the number of ranks, but a
/// policy uses lossy codecs. In mode shadow no decision is carried out, so that any codec is
/// allowed.
void check_codes(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  const bool shadow = hand_over_mode(request.mode()) == HandOverMode::shadow;
  if (!scenario.live().reproducible() || shadow) return;
  for (int i = 0; i < scenario.policies_size(); ++i) {
    FixedCodecParameters given;
    const bool fixed = scenario.policies(i).name() == "fixed-codec" &&
                       scenario.policies(i).parameters().UnpackTo(&given);
    if (!fixed || !lossy(rules_of(given))) continue;
    throw Error(
        ErrorKind::bad_input,
        fmt::format("policies[{}]: expected a lossless codec for a reproducible run, found a lossy "
                    "fixed-codec; choose another codec or set live.reproducible to false",
                    i));
  }
}

}  // namespace

void check_request(const RunRequest& request) {
  if (!request.scenario().has_job()) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format(
            "{}: expected a job, the only kind of work that live mode runs; use orrery simulate",
            request.scenario().has_trace() ? "trace" : "collective"));
  }
  require(request.scenario().jobs_size() == 0,
          "jobs: expected one job in live mode; use orrery simulate for several jobs");
  require(!request.scenario().has_recorded(),
          "recorded: expected a job in live mode; use orrery simulate for recorded jobs");
  const Job& job = request.scenario().job();
  require(!job.model().builtin().empty(),
          "job.model: live mode trains a built-in model (builtin: language-model or transformer)");
  require(job.has_pace(), "job.pace: live mode needs the declared cost of a micro-batch");
  require(job.layout().tensor() <= 1 && job.layout().pipeline() <= 1,
          "job.layout: live mode is data-parallel only (tensor: 1, pipeline: 1)");
  const Sharding sharding = sharding_of(job.layout());
  require(sharding <= Sharding::optimizer,
          "job.layout.shard: live mode shards the optimizer's state alone (shard: optimizer)");
  require(job.layout().shard_group() == 0,
          "job.layout.shard_group: live mode shards among all ranks (shard_group: 0)");
  check_faults(request);
  check_codes(request);
  if (live_fabric(request) == LiveFabric::nccl) {
    require(sharding == Sharding::nothing,
            "job.layout.shard: with --fabric nccl every rank holds all state (shard: nothing)");
    std::string reason;
    if (!find_nccl(cuda_module_path(), reason)) {
      throw Error(ErrorKind::environment, fmt::format("--fabric nccl: {}", reason));
    }
    require(builtin_kind(job.model()) == BuiltinKind::transformer,
            "job.model.builtin: with --fabric nccl the model is transformer; others train on CPUs");
  }
}

}  // namespace orrery::live
