#include "traces/report/report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using ::testing::HasSubstr;

Report full_report(const std::string& mode) {
  Report report;
  report.set_mode(mode);
  report.set_scenario("straggler-4-ranks");
  report.set_seed(1);
  report.set_ranks(4);
  report.set_steps_completed(1001);
  report.set_elapsed_s(5.2);
  report.set_step_time_s(0.5);
  report.set_ideal_step_time_s(0.48);
  report.set_tokens_per_s(1234567);
  report.set_mfu(0.42);
  report.set_energy_j(7.2e9);
  report.set_cost_usd(12.5);
  report.mutable_host()->set_wall_s(0.3);
  return report;
}

TEST(Report, TwelveLinesInBothWorlds) {
  for (const char* mode : {"sim", "live"}) {
    Report report = full_report(mode);
    report.set_memory_per_gpu_bytes(1e9);
    report.mutable_breakdown()->set_compute(1);
    const std::string text = report_summary(report);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
    EXPECT_EQ(text.back(), '\n');
  }
}

TEST(Report, SummaryHasUnitsAndOrigins) {
  const std::string sim = report_summary(full_report("sim"));
  EXPECT_NE(sim.find("1.04 x the ideal 480 ms at the end"), std::string::npos) << sim;
  EXPECT_NE(sim.find("1,234,567 tokens/s, MFU 42.0%"), std::string::npos) << sim;
  EXPECT_NE(sim.find("2.00 MWh, 12.50 USD (4 GPUs, 2,163.46 USD an hour each), modelled"),
            std::string::npos)
      << sim;
  EXPECT_EQ(sim.find("measured"), std::string::npos);
  EXPECT_NE(report_summary(full_report("live")).find("measured"), std::string::npos);
}

TEST(Report, SharesOfALiveRunSayWhatTheirRestContains) {
  Report report = full_report("live");
  report.mutable_breakdown()->set_compute(0.6);
  report.mutable_breakdown()->set_waiting(0.15);
  report.mutable_breakdown()->set_exposed_communication(0.25);
  const std::string text = report_summary(report);
  EXPECT_NE(text.find("compute 60.0%, waiting 15.0%, other 25.0% (communication, pauses, lost "
                      "steps)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("lost 0.0%"), std::string::npos) << "losses are not measured: never 0";
  report.set_mode("sim");
  EXPECT_NE(report_summary(report).find("communication 25.0%, bubble 0.0%"), std::string::npos);
}

TEST(Report, SummaryHasThePlannersUnits) {
  Report report = full_report("sim");
  report.set_elapsed_s(4'398'893);
  report.set_energy_j(1.48e6);
  report.set_cost_usd(1'876'861.005);
  report.mutable_breakdown()->set_bubble(-1e-9);
  report.add_warnings("too fast");
  const std::string text = report_summary(report);
  EXPECT_NE(text.find("(50.9 d), modelled"), std::string::npos) << text;
  EXPECT_NE(text.find("411.1 Wh, 1,876,861.0"), std::string::npos) << text;
  EXPECT_NE(text.find("bubble 0.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("\nwarning       too fast\n"), std::string::npos) << text;
  report.set_elapsed_s(10'800);
  EXPECT_NE(report_summary(report).find("(3.0 h)"), std::string::npos);
  report.set_elapsed_s(5'000);
  EXPECT_EQ(report_summary(report).find(" h)"), std::string::npos);
}

TEST(Report, SummaryOfATraceSaysWhyItHasNoEnergy) {
  Report report;
  report.set_ranks(4);
  report.set_elapsed_s(0.4);
  report.mutable_trace_limits()->set_compute_s(0.4);
  EXPECT_EQ(report_summary(report).find("energy"), std::string::npos) << "neither is known";
  report.set_cost_usd(3.0 * 4 * 0.4 / 3600);
  EXPECT_THAT(report_summary(report),
              HasSubstr("energy, cost  energy not modelled (trace or lone collective), 0.0013 USD "
                        "(4 GPUs, 3.00 USD an hour each), modelled\n"));
}

TEST(Report, UnknownIsSaidAndNeverZero) {
  const std::string text = report_summary(Report());
  for (const char* unknown : {"throughput", "memory", "energy", "MFU", "shares"}) {
    EXPECT_EQ(text.find(unknown), std::string::npos) << text;
  }
  EXPECT_NE(text.find("step time     not known median"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(report_json(Report()));
  EXPECT_TRUE(json.at("mfu").is_null());
  EXPECT_TRUE(json.at("final_loss").is_null());
  EXPECT_TRUE(json.at("host").is_null());
  EXPECT_TRUE(json.at("failures").empty());
}

TEST(Report, BytesAreWholeNumbers) {
  const auto json = nlohmann::json::parse(report_json(full_report("sim")));
  EXPECT_TRUE(json.at("host").at("peak_rss_bytes").is_number_integer());
}

TEST(Report, HostCanBeLeftOut) {
  const Report report = full_report("sim");
  EXPECT_TRUE(nlohmann::json::parse(report_json(report)).contains("host"));
  EXPECT_FALSE(nlohmann::json::parse(report_json(report, false)).contains("host"));
  EXPECT_EQ(report_json(report).find("\"mode\""), report_json(report).find('"'));
}

TEST(Report, EachJobOfAWorldHasALine) {
  Report report = full_report("sim");
  JobOutcome training;
  training.set_name("second");
  training.set_kind("training");
  training.set_gpus(256);
  training.set_started_s(0);
  training.set_ended_s(631);
  training.set_steps(1000);
  training.set_step_time_s(0.6);
  training.set_step_time_alone_s(0.5);
  for (int i = 0; i < 12; ++i) {
    JobOutcome& recorded = *report.add_jobs();
    recorded.set_name(fmt::format("log-{}", i));
    recorded.set_kind("recorded");
    recorded.set_gpus(8);
    recorded.set_submitted_s(60);
    if (i > 0) recorded.set_started_s(90);
  }
  *report.add_jobs() = training;
  const std::string text = report_summary(report);
  EXPECT_THAT(text, HasSubstr("job second    256 GPUs, from the start to 631 s, 1,000 steps of "
                              "600 ms, 20.0% more than alone\n"));
  EXPECT_THAT(text, HasSubstr("job log-0     8 GPUs, submitted at 60.0 s, never started\n"));
  EXPECT_THAT(text, HasSubstr("job log-6     8 GPUs, from 90.0 s on\n"));
  EXPECT_THAT(text, HasSubstr("and 5 more: --json has all\n"));
  EXPECT_EQ(report_summary(full_report("sim")).find("job "), std::string::npos);
}

TEST(Report, VersionIsThatOfTheBuild) { EXPECT_EQ(version(), "0.1.0"); }

}  // namespace
}  // namespace orrery
