#include "live/run/requirements.hpp"

#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "live/fabric/nccl_fabric.hpp"
#include "live/machine/cuda_module.hpp"
#include "policies/parameters.pb.h"
#include "topologies/part.hpp"

namespace orrery::live {
namespace {

RunRequest runnable() {
  RunRequest out;
  Job& job = *out.mutable_scenario()->mutable_job();
  job.mutable_model()->set_builtin("language-model");
  job.mutable_layout()->set_tensor(1);
  job.mutable_layout()->set_pipeline(1);
  job.mutable_layout()->set_data(2);
  job.mutable_pace()->set_micro_batch(1);
  return out;
}

void expect_refusal(const std::function<void(RunRequest&)>& change, ErrorKind kind,
                    const std::string& part) {
  RunRequest request = runnable();
  change(request);
  try {
    check_request(request);
    ADD_FAILURE() << "accepted without " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Requirements, TakesADataParallelPacedJobOfTheBuiltInModel) {
  EXPECT_NO_THROW(check_request(runnable()));
  RunRequest explicitly = runnable();
  explicitly.set_mode("drive");
  explicitly.set_fabric("grpc");
  explicitly.mutable_scenario()->mutable_job()->mutable_layout()->set_shard("optimizer");
  Fault& fault = *explicitly.mutable_scenario()->add_faults();
  fault.set_at_step(0);
  fault.set_slow(2);
  EXPECT_NO_THROW(check_request(explicitly));
}

TEST(Requirements, NamesTheKeyThatLiveModeCannotRun) {
  constexpr ErrorKind kBad = ErrorKind::bad_input;
  const auto job = [](RunRequest& request) { return request.mutable_scenario()->mutable_job(); };
  expect_refusal([&](auto& r) { job(r)->mutable_model()->clear_builtin(); }, kBad, "job.model");
  expect_refusal([&](auto& r) { job(r)->clear_pace(); }, kBad, "job.pace");
  expect_refusal([&](auto& r) { job(r)->mutable_layout()->set_tensor(2); }, kBad, "job.layout");
  expect_refusal([&](auto& r) { job(r)->mutable_layout()->set_pipeline(2); }, kBad, "job.layout");
  for (const char* shard : {"gradients", "parameters"}) {
    expect_refusal([&](auto& r) { job(r)->mutable_layout()->set_shard(shard); }, kBad,
                   "job.layout.shard");
  }
  const auto sharded_on_gpus = [&](auto& r) {
    job(r)->mutable_layout()->set_shard("optimizer");
    r.set_fabric("nccl");
  };
  expect_refusal(sharded_on_gpus, kBad, "job.layout.shard");
  expect_refusal([&](auto& r) { job(r)->mutable_layout()->set_shard_group(2); }, kBad,
                 "shard_group");
}

TEST(Requirements, NamesTheFaultThatLiveModeCannotInject) {
  constexpr ErrorKind kBad = ErrorKind::bad_input;
  const auto at = [](RunRequest& request) {
    Fault& fault = *request.mutable_scenario()->add_faults();
    fault.set_at_time(5);
    return &fault;
  };
  for (const PartKind kind : {PartKind::link, PartKind::leaf, PartKind::spine, PartKind::plane,
                              PartKind::storage}) {
    const auto change = [&](RunRequest& request) {
      Fault& fault = *at(request);
      const int number = Fault::kGpu + static_cast<int>(kind);
      const auto* field = Fault::descriptor()->FindFieldByNumber(number);
      Fault::GetReflection()->SetUInt32(&fault, field, 0);
      fault.set_rate(0.5);
    };
    expect_refusal(change, kBad, fmt::format("faults[0].{}: live mode", name_of(kind)));
  }
  const auto for_ever = [&](RunRequest& request) {
    Fault& fault = *at(request);
    fault.set_rank(1);
    fault.set_link_down(true);
  };
  expect_refusal(for_ever, kBad, "faults[0].link_down: expected an end");
  const auto down = [&](RunRequest& request) {
    Fault& fault = *at(request);
    fault.set_nic(1);
    fault.set_down(true);
  };
  expect_refusal(down, kBad, "faults[0].down: expected an end");
  const auto corrupted = [&](RunRequest& request) {
    Fault& fault = *at(request);
    fault.set_rank(1);
    fault.set_kill(true);
    fault.set_corrupted(1);
  };
  expect_refusal(corrupted, kBad, "faults[0].corrupted: expected a fault without 'corrupted'");
  const auto slowed_nccl = [&](RunRequest& request) {
    Fault& fault = *at(request);
    fault.set_rank(1);
    fault.set_link_slow(4);
    request.set_fabric("nccl");
  };
  expect_refusal(slowed_nccl, kBad, "faults[0].link_slow: expected no fault of links with NCCL");
  const auto elsewhere = [&](RunRequest& request) {
    Fault& fault = *at(request);
    fault.set_gpu(1);
    fault.set_down(true);
    request.mutable_rendezvous();
  };
  expect_refusal(elsewhere, kBad, "faults: expected no kill or stop with --rendezvous");
}

TEST(Requirements, NamesTheFailuresThatLiveModeCannotInject) {
  const auto of_kind = [](const char* part) {
    return [part](RunRequest& request) {
      FailureKind& kind = *request.mutable_scenario()->mutable_failures()->add_kinds();
      kind.set_cause("rare");
      kind.set_part(part);
      kind.set_mtbf(1e9);
      part == std::string("job") ? kind.set_kill(true) : kind.set_down(true);
      fill_defaults(*request.mutable_scenario()->mutable_failures());
      if (part == std::string("job")) request.mutable_rendezvous();
    };
  };
  constexpr ErrorKind kBad = ErrorKind::bad_input;
  expect_refusal(of_kind("spine"), kBad, "failures: 'rare'.spine: live mode injects faults into");
  expect_refusal(of_kind("job"), kBad, "faults: expected no kill or stop with --rendezvous");
}

TEST(Requirements, TakesFaultsAtTimesAndOnLinksOfRanks) {
  RunRequest request = runnable();
  for (int i = 0; i < 3; ++i) {
    Fault& fault = *request.mutable_scenario()->add_faults();
    fault.set_rank(1);
    fault.set_at_time(5);
    fault.set_for_(5);
  }
  request.mutable_scenario()->mutable_faults(0)->set_slow(2);
  request.mutable_scenario()->mutable_faults(1)->set_link_slow(2);
  request.mutable_scenario()->mutable_faults(2)->set_link_down(true);
  EXPECT_NO_THROW(check_request(request));
}

/// Adds fixed-codec with this code for matrices.
void add_codec(RunRequest& request, const std::string& codec) {
  FixedCodecParameters codes;
  FixedCodecParameters::Rule& line = *codes.add_rules();
  line.set_bucket_class("matrices");
  line.set_codec(codec);
  PolicySpec& policy = *request.mutable_scenario()->add_policies();
  policy.set_name("fixed-codec");
  policy.mutable_parameters()->PackFrom(codes);
  request.mutable_scenario()->mutable_live()->set_reproducible(true);
}

TEST(Requirements, AReproducibleRunBearsNoLossyCodes) {
  expect_refusal([](auto& r) { add_codec(r, "int4"); }, ErrorKind::bad_input,
                 "policies[0]: expected a lossless codec");
  expect_refusal([](auto& r) { add_codec(r, "bf16"); }, ErrorKind::bad_input,
                 "set live.reproducible to false");
  RunRequest request = runnable();
  add_codec(request, "none");
  EXPECT_NO_THROW(check_request(request));
  add_codec(request, "int8");
  request.set_mode("shadow");  // decides, but nothing is carried out
  EXPECT_NO_THROW(check_request(request));
  request.set_mode("drive");
  request.mutable_scenario()->mutable_live()->set_reproducible(false);
  EXPECT_NO_THROW(check_request(request));
}

TEST(Requirements, SaysWhatThisVersionOrMachineDoesNotHave) {
  std::string reason;
  if (find_nccl(cuda_module_path(), reason)) {
    expect_refusal([](auto& r) { r.set_fabric("nccl"); }, ErrorKind::bad_input, "transformer");
  } else {
    expect_refusal([](auto& r) { r.set_fabric("nccl"); }, ErrorKind::environment, "nccl");
  }
}

}  // namespace
}  // namespace orrery::live
