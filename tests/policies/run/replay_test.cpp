#include <stdexcept>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

class Replay : public testing::Test {
 protected:
  /// Records a run, lets `alter` at its records, replays it.
  template <class Alter>
  ReplayResult replayed(Alter alter, const std::vector<std::string>& overrides = {}) {
    toy::record(scenario_, path_);
    std::vector<LogRecord> records = toy::read_log(path_);
    alter(records);
    toy::write_log(path_, records);
    return replay_log(path_, overrides);
  }
  template <class Alter>
  std::string refusal(Alter alter) {
    try {
      replayed(alter);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.message().substr(path_.size() + 2);
    }
    return "none";
  }

  const toy::TempDir dir_;
  const std::string path_ = dir_ / "log";
  Scenario scenario_ = toy::scenario_with("predictive-rebalance");
};

constexpr auto kNothing = [](std::vector<LogRecord>&) {};

TEST_F(Replay, TheSamePolicyDecidesTheSame) {
  const toy::Recorded recorded = toy::record(scenario_, path_);
  ASSERT_GE(recorded.decisions, 1u);
  const ReplayResult result = replay_log(path_, {});
  EXPECT_EQ(result.first_difference, "");
  EXPECT_EQ(result.decisions, recorded.decisions);
  EXPECT_EQ(result.decision_trace_sha256, recorded.trace_sha256);
  EXPECT_EQ(result.calls, toy::read_log(path_).back().footer().calls());
}

TEST_F(Replay, AChangedThresholdIsADifference) {
  const ReplayResult result =
      replayed(kNothing, {"predictive-rebalance.gain_threshold=9"});
  EXPECT_NE(result.first_difference.find("recorded Configure{job 0: shares "), std::string::npos)
      << result.first_difference;
  EXPECT_NE(result.first_difference.find("replayed nothing"), std::string::npos);
}

TEST_F(Replay, TheSameThresholdIsNone) {
  EXPECT_EQ(replayed(kNothing, {"predictive-rebalance.gain_threshold=0.04"}).first_difference, "");
}

TEST_F(Replay, UnknownOverridesAreRefused) {
  toy::record(scenario_, path_);
  EXPECT_THROW(replay_log(path_, {"predictive-rebalanse.gain_threshold=9"}), Error);
  EXPECT_THROW(replay_log(path_, {"predictive-rebalance.gain=9"}), Error);
  EXPECT_THROW(replay_log(path_, {"gain_threshold"}), Error);
}

/// Returns the read of the micro-batch times in a call.
SamplesRead& times_of(CallRecord& call) {
  for (SamplesRead& read : *call.mutable_read()) {
    if (describe_read(read) == "micro_batch_time of RANKS") return read;
  }
  throw std::logic_error("expected a read of micro-batch times, found none");
}

TEST_F(Replay, OneFlippedSampleOfAnyCallIsADifference) {
  toy::record(scenario_, path_);
  const std::size_t calls = toy::read_log(path_).size() - 2;
  for (std::size_t call = 2; call <= calls; call += 7) {
    const ReplayResult result = replayed([call](std::vector<LogRecord>& records) {
      CallRecord& altered = *records[call].mutable_call();
      SamplesRead& read = times_of(altered);
      ASSERT_GT(read.values().values_size(), 1);
      read.mutable_values()->set_values(1, read.values().values(1) * 1.5);
    });
    EXPECT_NE(result.first_difference, "") << "call " << call;
  }
}

TEST_F(Replay, WhatNoDecisionHangsOnIsADifferenceToo) {
  scenario_ = toy::scenario_with("static");
  const ReplayResult result = replayed([](std::vector<LogRecord>& records) {
    CallRecord& call = *records[9].mutable_call();
    EXPECT_EQ(call.read_size(), 0) << "nobody has asked";
    call.mutable_observation()->mutable_events(0)->mutable_steps_done()->set_duration_ns(99);
  });
  EXPECT_EQ(result.first_difference,
            "the bytes of the log differ from the recorded ones: the log was altered");
}

TEST_F(Replay, TelemetryThatWasNotReadThenIsADifference) {
  std::size_t at = 0;
  const ReplayResult result = replayed([&at](std::vector<LogRecord>& records) {
    while (records[at].call().read_size() == 0) ++at;
    records[at].mutable_call()->clear_read();
  });
  EXPECT_NE(result.first_difference.find("of job 0, which it did not read"), std::string::npos)
      << result.first_difference;
  EXPECT_EQ(result.calls, at - 1);
}

TEST_F(Replay, OneColumnThatWasNotReadThenIsADifference) {
  const ReplayResult result = replayed([](std::vector<LogRecord>& records) {
    std::size_t at = 0;
    while (records[at].call().read_size() == 0) ++at;
    times_of(*records[at].mutable_call()).set_job(7);
  });
  EXPECT_NE(result.first_difference.find(
                "the policy reads micro_batch_time of RANKS of job 0, which it did not read"),
            std::string::npos)
      << result.first_difference;
}

TEST_F(Replay, AnotherTickIsADifferenceBeforeTheFirstCall) {
  const ReplayResult result = replayed(kNothing, {"predictive-rebalance.tick=100ms"});
  EXPECT_EQ(
      result.first_difference,
      "the policies' needs differ from the recorded ones: recorded a tick of 0.05 s, now 0.1 s");
  EXPECT_EQ(result.calls, 0u);
}

TEST_F(Replay, OtherNeedsAreADifference) {
  const ReplayResult result = replayed([](std::vector<LogRecord>& records) {
    NeedsRecord& needs = *records[0].mutable_header()->mutable_needs();
    needs.set_settings(Kinds<Setting>::of<Shares, OnLoss>().bits());
  });
  EXPECT_NE(result.first_difference.find("other actions or settings"), std::string::npos)
      << result.first_difference;
}

TEST_F(Replay, WakesAtOtherInstantsAreADifference) {
  const ReplayResult result = replayed([](std::vector<LogRecord>& records) {
    records[4].mutable_call()->add_wakes(17);
  });
  EXPECT_NE(result.first_difference.find("calls at other instants"), std::string::npos)
      << result.first_difference;
}

TEST_F(Replay, AnAlteredOutcomeIsADifference) {
  const ReplayResult result = replayed([](std::vector<LogRecord>& records) {
    for (std::size_t i = 1; i + 1 < records.size(); ++i) {
      ObservationRecord& seen = *records[i].mutable_call()->mutable_observation();
      for (EventRecord& event : *seen.mutable_events()) {
        if (event.has_decided()) event.mutable_decided()->set_status(OUTCOME_REJECTED);
      }
    }
  });
  EXPECT_NE(result.first_difference, "");
}

TEST_F(Replay, AnAlteredDecisionIsADifferenceWithItsCall) {
  std::size_t at = 0;
  const ReplayResult result = replayed([&at](std::vector<LogRecord>& records) {
    while (records[at].call().decisions_size() == 0) ++at;
    records[at].mutable_call()->mutable_decisions(0)->set_why("because");
  });
  EXPECT_EQ(result.first_difference.find(std::to_string(at - 1), 5), 5u)
      << result.first_difference;
  EXPECT_NE(result.first_difference.find("'because'"), std::string::npos);
  EXPECT_EQ(result.calls, at);
}

TEST_F(Replay, AlteredRestAndStateAreDifferences) {
  const auto rest = replayed([](std::vector<LogRecord>& records) {
    CallRecord& call = *records[3].mutable_call();
    call.set_at_rest(!call.at_rest());
  });
  EXPECT_NE(rest.first_difference.find("at rest"), std::string::npos) << rest.first_difference;
  const auto state = replayed([](std::vector<LogRecord>& records) {
    records[3].mutable_call()->set_state_digest(1);
  });
  EXPECT_NE(state.first_difference.find("state differs"), std::string::npos);
}

TEST_F(Replay, AMissingCallIsADifferenceOrRefused) {
  EXPECT_NE(replayed([](std::vector<LogRecord>& records) {
              records.erase(records.end() - 2);
            }).first_difference, "");
}

TEST_F(Replay, ALogWithoutItsEndIsRefusedWithTheRecordAndTheByte) {
  std::size_t left = 0;
  const std::string why = refusal([&left](auto& records) {
    records.pop_back();
    left = records.size();
  });
  EXPECT_EQ(why, "is cut short (record " + std::to_string(left) + ", byte " +
                     std::to_string(toy::read_file(path_).size()) + ")");
}

TEST_F(Replay, HeadersAreChecked) {
  EXPECT_EQ(refusal([](auto& records) { records[0].mutable_header()->set_format(7); }),
            "expected log format 2.0 to 5.x, found format 7.0; read the log with the orrery that "
            "wrote it, or with a newer one ('orrery --version' prints the version) (record 0, byte "
            "0)");
  EXPECT_EQ(refusal([](auto& records) { records[0].mutable_header()->set_format(1); }),
            "expected log format 2.0 to 5.x, found format 1.0; read the log with the orrery that "
            "wrote it, or record the run again (record 0, byte 0)");
  EXPECT_EQ(refusal([](auto& records) { records[0].mutable_header()->set_format(0); }),
            "is no log (record 0, byte 0)");
  EXPECT_EQ(refusal([](auto& records) { records.erase(records.begin()); }),
            "is no log (record 0, byte 0)");
  EXPECT_EQ(refusal([](auto& records) { records.clear(); }), "is empty (record 0, byte 0)");
  EXPECT_EQ(refusal([](auto& records) { records[0].mutable_header()->clear_scenario(); }),
            "its header is incomplete (record 0, byte 0)");
  EXPECT_NE(refusal([](auto& records) {
              records[0].mutable_header()->set_policy_outside(true);
            }).find("orrery.replay"), std::string::npos);
  EXPECT_NE(refusal([](auto& records) {
              LogHeader& header = *records[0].mutable_header();
              header.mutable_scenario()->mutable_cluster()->set_nodes(1u << 30);
            }), "none");
  EXPECT_NE(refusal([](auto& records) { records.push_back(records.back()); }), "none");
  EXPECT_NE(refusal([](auto& records) {
              records[5].mutable_call()->mutable_observation()->add_events()->mutable_job_done()
                  ->set_job(7);
            }).find("there is no job 7 (record 5, byte "), std::string::npos);
  EXPECT_THROW(replay_log(dir_ / "absent", {}), Error);
  toy::write_file(path_, "name: a scenario, not a log\n");
  EXPECT_THROW(replay_log(path_, {}), Error);
}

TEST_F(Replay, ALogCutAtAnyByteIsRefused) {
  scenario_ = toy::scenario_with("static");
  toy::record(scenario_, path_, 3);
  const std::string whole = toy::read_file(path_);
  ASSERT_EQ(replay_log(path_, {}).first_difference, "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    toy::write_file(path_, whole.substr(0, size));
    EXPECT_THROW(replay_log(path_, {}), Error) << "at byte " << size;
  }
}

TEST_F(Replay, ALogWithAnyByteChangedIsRefusedOrDiffers) {
  toy::record(scenario_, path_, 3);
  const std::string whole = toy::read_file(path_);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ (1 << at % 8));
    toy::write_file(path_, altered);
    try {
      EXPECT_NE(replay_log(path_, {}).first_difference, "") << "at byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << "at byte " << at << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace orrery
