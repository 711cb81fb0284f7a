#include "live/requirements.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/cuda_module.hpp"
#include "live/nccl_fabric.hpp"
#include "policies/parameters.pb.h"

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
  const auto fault = [](RunRequest& request) { return request.mutable_scenario()->add_faults(); };
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
  expect_refusal([&](auto& r) { fault(r)->set_at_time(5); }, kBad, "faults[0]");
  expect_refusal([&](auto& r) { fault(r)->set_link_slow(5); }, kBad, "link_slow");
  expect_refusal([&](auto& r) { fault(r)->set_link_down(true); }, kBad, "link_down");
}

/// With fixed-codec in this code for matrices.
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
                 "policies[0]: fixed-codec");
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
