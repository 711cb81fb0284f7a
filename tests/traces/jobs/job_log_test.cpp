#include "traces/jobs/job_log.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

const std::string kSamples = ORRERY_SOURCE_DIR "/tests/traces/samples/";

/// Format, rows, jobs, passed over, rejected.
std::string counts(const TraceQuality& quality) {
  EXPECT_EQ(quality.rows(), quality.jobs() + quality.passed_over() + quality.rejected());
  return quality.format() + " " + std::to_string(quality.rows()) + " = " +
         std::to_string(quality.jobs()) + " + " + std::to_string(quality.passed_over()) + " + " +
         std::to_string(quality.rejected());
}

/// "id submit+duration x gpus".
std::vector<std::string> in_short(const JobLog& log) {
  std::vector<std::string> out;
  for (const TraceJob& job : log.jobs) {
    out.push_back(job.id + " " + std::to_string(job.submit_s) + "+" +
                  std::to_string(job.duration_s) + " x" + std::to_string(job.gpus));
  }
  return out;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobLog, SlurmSacct) {
  const JobLog log = load_job_log(kSamples + "sacct.txt");
  EXPECT_EQ(counts(log.quality), "slurm-sacct 9 = 3 + 5 + 1");
  EXPECT_THAT(in_short(log), ElementsAre("1001 0+7200 x8", "1003_1 60+30 x1", "1007 5400+3600 x3"));
  EXPECT_EQ(log.jobs[0].name, "train gpt");
  EXPECT_EQ(log.jobs[0].user, "ann");
  EXPECT_EQ(log.jobs[0].pool, "a100");
  EXPECT_EQ(log.jobs[0].requested_s, 240 * 60);
  EXPECT_EQ(log.jobs[0].recorded_start_s, 300);
  EXPECT_EQ(log.jobs[1].requested_s, 0);
  ASSERT_EQ(log.quality.first_rejected_size(), 1);
  EXPECT_EQ(log.quality.first_rejected(0).line(), 9u);
  EXPECT_EQ(log.quality.first_rejected(0).reason(), "End is before its start");
}

/// Returns the message of the refusal of a text.
std::string refusal(const std::string& text) {
  try {
    parse_job_log("log.txt", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string kTimes = "2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T10:05:00";

TEST(JobLog, SlurmsLimitsWithoutANumberAreNoLimit) {
  const JobLog log = parse_job_log(
      "log.txt", "JobID|Submit|Start|End|AllocTRES|TimelimitRaw\n1|" + kTimes +
                     "|gres/gpu=2|UNLIMITED\n2|" + kTimes + "|gres/gpu=2|Partition_Limit\n3|" +
                     kTimes + "|gres/gpu=2|90\n4|" + kTimes + "|gres/gpu=2|soon\n");
  EXPECT_EQ(counts(log.quality), "slurm-sacct 4 = 3 + 0 + 1");
  EXPECT_EQ(log.jobs[0].requested_s, 0);
  EXPECT_EQ(log.jobs[1].requested_s, 0);
  EXPECT_EQ(log.jobs[2].requested_s, 90 * 60);
}

constexpr const char* kFixedColumns = R"(
JobID           JobName              Submit               Start                 End  AllocTRES
------------ ---------- ------------------- ------------------- ------------------- ----------
83               my job 2024-03-01T08:00:00 2024-03-01T08:05:00 2024-03-01T10:05:00 gres/gpu=2
84                      2024-03-01T08:00:10 2024-03-01T08:05:00 2024-03-01T08:06:00 gres/gpu=1
85                 wide 2024-03-01T08:00:10 2024-03-01T08:05:00 2024-03-01T08:06:00 billing=8+)";

TEST(JobLog, SlurmsColumnsOfFixedWidth) {
  const JobLog log = parse_job_log("log.txt", kFixedColumns + 1);
  EXPECT_EQ(counts(log.quality), "slurm-sacct 3 = 2 + 0 + 1");
  EXPECT_THAT(in_short(log), ElementsAre("83 0+7200 x2", "84 10+60 x1"));
  EXPECT_EQ(log.jobs[0].name, "my job");
  EXPECT_EQ(log.quality.first_rejected(0).line(), 5u);
  EXPECT_THAT(log.quality.first_rejected(0).reason(), HasSubstr("use sacct -P"));
}

TEST(JobLog, SlurmWithCommas) {
  const JobLog log = parse_job_log(
      "log.txt",
      "JobID,Submit,Start,End,AllocTRES,NNodes\n"
      "1,2024-03-01T08:00:00,2024-03-01T08:05:00,2024-03-01T10:05:00,cpu=4,gres/gpu=2,node=1,1\n"
      "2,2024-03-01T08:00:00,2024-03-01T08:05:00,2024-03-01T10:05:00,,1\n");
  EXPECT_THAT(in_short(log), ElementsAre("1 0+7200 x2"));
}

TEST(JobLog, SlurmHasAQosAndWithoutPartitionsItsAccounts) {
  const std::string row =
      "2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T10:05:00|gres/gpu=2|vision|high|";
  const std::string columns = "JobID|Submit|Start|End|AllocTRES|Account|QOS|";
  const JobLog accounts = parse_job_log("log.txt", columns + "NNodes\n1|" + row + "1\n");
  EXPECT_EQ(accounts.jobs[0].pool, "vision");
  EXPECT_EQ(accounts.jobs[0].qos, "high");
  EXPECT_EQ(accounts.origin_s, 1709280000);
  const JobLog partitions = parse_job_log("log.txt", columns + "Partition\n1|" + row + "p\n");
  EXPECT_EQ(partitions.jobs[0].pool, "p");
}

TEST(JobLog, SlurmWithoutAColumnOrItsHeaderNamesTheCommand) {
  const std::string lacks = refusal("JobID|Start|End|AllocTRES\n1|a|b|c\n");
  EXPECT_THAT(lacks, HasSubstr("found no 'Submit'"));
  EXPECT_THAT(lacks, HasSubstr("sacct -aPX"));
  EXPECT_THAT(refusal("JobID   JobName\n"), HasSubstr("found no 'Submit'"));
  EXPECT_THAT(refusal("1|" + kTimes + "|gres/gpu=2\n"), HasSubstr("a row without a header"));
}

TEST(JobLog, SlurmsNodesOfKnownSize) {
  const std::string text = "JobID|Submit|Start|End|AllocTRES|NNodes\n1|" + kTimes +
                           "|cpu=9|32\n2|" + kTimes + "||1\n";
  EXPECT_THAT(refusal(text), HasSubstr("give --gpus-per-node"));
  const JobLog log = parse_job_log("log.txt", text, {.gpus_per_node = 8});
  EXPECT_THAT(in_short(log), ElementsAre("1 0+7200 x256", "2 0+7200 x8"));
  const JobLog named =
      parse_job_log("log.txt", text + "3|" + kTimes + "|gres/gpu=2|1\n", {.gpus_per_node = 8});
  EXPECT_THAT(in_short(named), ElementsAre("3 0+7200 x2")) << "the others have no GPUs";
}

TEST(JobLog, IdsOfSeveralJobsAreCounted) {
  const JobLog log = parse_job_log("log.txt", "JobID|Submit|Start|End|AllocTRES\n83|" + kTimes +
                                                  "|gres/gpu=2\n83|" + kTimes + "|gres/gpu=2\n");
  EXPECT_EQ(log.quality.duplicate_ids(), 1u);
  EXPECT_EQ(log.quality.first_duplicate(), "83");
  EXPECT_EQ(load_job_log(kSamples + "sacct.txt").quality.duplicate_ids(), 0u);
}

TEST(JobLog, AnUnknownUserOfSwfIsNoUser) {
  const JobLog log = parse_job_log("log.swf", "1 0 5 9 4 -1 -1 4 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
                                              "2 0 5 9 4 -1 -1 4 60 -1 1 12 -1 3 1 -1 -1 -1\n");
  EXPECT_TRUE(log.jobs[0].user.empty());
  EXPECT_TRUE(log.jobs[0].pool.empty());
  EXPECT_TRUE(log.jobs[0].name.empty());
  EXPECT_EQ(log.jobs[1].user, "12");
}

TEST(JobLog, Shockwave) {
  const JobLog log = parse_job_log(
      "jobs.trace", "ResNet-18 (batch size 32)\tpython3 main.py\tcifar10\t--num_steps\t1\t31266\t2"
                    "\tgns\t1.0\t-1.0\t1800.5\t60.0\n"
                    "LM (batch size 5)\tpython3 lm.py\tlm\t--steps\t0\t100\t1\tstatic\t1\t-1\t90"
                    "\t0\n");
  EXPECT_EQ(counts(log.quality), "shockwave 2 = 2 + 0 + 0");
  EXPECT_THAT(in_short(log), ElementsAre("0 0+90 x1", "1 60+1800 x2"));
  EXPECT_EQ(log.jobs[1].name, "ResNet-18 (batch size 32)");
}

TEST(JobLog, PhillyAsCsvAndAsJson) {
  const JobLog csv = load_job_log(kSamples + "philly.csv");
  EXPECT_EQ(counts(csv.quality), "philly-csv 5 = 3 + 0 + 2");
  EXPECT_THAT(in_short(csv), ElementsAre("0 0+2951 x2", "1 0+12 x1", "2 2932+66 x1"));
  const JobLog json = load_job_log(kSamples + "philly.json");
  EXPECT_EQ(counts(json.quality), "philly-json 4 = 2 + 1 + 1");
  EXPECT_THAT(in_short(json),
              ElementsAre("application_1_0004 0+30 x1", "application_1_0001 60+2400 x4"));
  EXPECT_EQ(json.jobs[1].recorded_start_s, 68);
  EXPECT_EQ(json.jobs[1].line, 2);
  EXPECT_EQ(json.quality.first_rejected(0).line(), 11u);
}

TEST(JobLog, HeliosAndAcme) {
  const JobLog helios = load_job_log(kSamples + "helios.csv");
  EXPECT_EQ(counts(helios.quality), "helios 4 = 1 + 2 + 1");
  EXPECT_THAT(in_short(helios), ElementsAre("30434 0+3600 x8"));
  const JobLog seren = load_job_log(kSamples + "acme_seren.csv");
  EXPECT_EQ(counts(seren.quality), "acme 3 = 2 + 1 + 0");
  EXPECT_THAT(in_short(seren), ElementsAre("dlc1 0+3600 x32", "dlc3 30+10 x1"));
  EXPECT_EQ(seren.jobs[0].name, "Pretrain");
  const JobLog kalos = load_job_log(kSamples + "acme_kalos.csv");
  EXPECT_EQ(counts(kalos.quality), "acme 2 = 1 + 1 + 0");
  EXPECT_THAT(in_short(kalos), ElementsAre("k1 0+18 x64"));
}

TEST(JobLog, Openb) {
  const JobLog log = load_job_log(kSamples + "openb.csv");
  EXPECT_EQ(counts(log.quality), "openb 4 = 2 + 2 + 0");
  EXPECT_THAT(in_short(log),
              ElementsAre("openb-pod-0000 0+12537396 x1", "openb-pod-0001 426961+90 x1"));
  EXPECT_EQ(log.jobs[0].milli, 0) << "a whole GPU";
  EXPECT_EQ(log.jobs[1].gpu_count(), 0.46);
  EXPECT_EQ(log.jobs[1].slices(7), 4u) << "0.46 of 7 slices, rounded up";
  EXPECT_EQ(slices_for_parts(log.jobs), 50u) << "460 and 1000 thousandths";
}

TEST(JobLog, TiresiasInSecondsMuriInMilliseconds) {
  EXPECT_THAT(in_short(load_job_log(kSamples + "tiresias.csv")),
              ElementsAre("0 0+164 x1", "1 30+147 x8"));
  EXPECT_THAT(in_short(load_job_log(kSamples + "muri.csv")),
              ElementsAre("0 0+1453510 x16", "1 27069+2683 x1"));
}

TEST(JobLog, GavelByItsThroughputs) {
  JobLogOptions options{.throughputs = kSamples + "gavel_throughputs.json"};
  const JobLog log = load_job_log(kSamples + "gavel.trace", options);
  EXPECT_EQ(counts(log.quality), "gavel 3 = 2 + 0 + 1");
  EXPECT_THAT(in_short(log), ElementsAre("0 0+250 x4", "1 6+100 x1"));
  EXPECT_THAT(log.quality.first_rejected(0).reason(), HasSubstr("Unheard of"));
  options.gpu = "k80";
  EXPECT_THAT(in_short(load_job_log(kSamples + "gavel10.trace", options)),
              ElementsAre("0 0+500 x1"));
  EXPECT_THROW(load_job_log(kSamples + "gavel.trace"), Error) << "steps are no seconds";
}

TEST(JobLog, ElasticFlowIsReadAndSiaNeedsADuration) {
  const JobLog flow = parse_job_log(
      "e.csv", "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n"
               "0,3715485,2011,cifar10,3719996,4096,1,5644\n1,3717550,1548,ncf,3717583,327,8,66\n");
  EXPECT_EQ(counts(flow.quality), "elasticflow 2 = 2 + 0 + 0");
  EXPECT_THAT(in_short(flow), ElementsAre("0 0+5644 x1", "1 2065+66 x8"));
  const std::string head = "name,time,application,num_replicas,batch_size";
  EXPECT_THAT(refusal(head + "\nbert-0,487.66,bert,12,384\n"),
              HasSubstr("found no 'duration'; workloads of Sia and Pollux have no durations: add a "
                        "column 'duration'"));
  const JobLog sia =
      parse_job_log("s.csv", head + ",duration\nbert-0,487.66,bert,12,384,900\n");
  EXPECT_THAT(in_short(sia), ElementsAre("bert-0 0+900 x12"));
  EXPECT_EQ(sia.jobs[0].name, "bert");
  EXPECT_TRUE(sia.jobs[0].sizes.empty());
  const JobLog sized = parse_job_log(
      "s.csv", head + ",duration,min_gpus,max_gpus,scaling\n"
                      "bert-0,487.66,bert,12,384,900,1,16,1:1 16:8\n"
                      "bert-1,490,bert,12,384,9,,8,\n");
  EXPECT_EQ(counts(sized.quality), "sia 2 = 1 + 0 + 1");
  EXPECT_EQ(sized.jobs[0].sizes.str(), "1 16 1:1 16:8");
  EXPECT_EQ(sized.quality.first_rejected(0).reason(),
            "max_gpus is 8, less than the 12 GPUs of the job");
}

TEST(JobLog, ATableThatLacksColumnsIsRefusedWithTheirNames) {
  const std::string helios =
      refusal("job_id,user,gpu_num,state,submit_time,start_time,duration\n1,u,8,X,0,0,5\n");
  EXPECT_THAT(helios, HasSubstr("log.txt:1:1: "));
  EXPECT_THAT(helios, HasSubstr("found no 'type'; such tables are data/job_trace/trace_*.csv"));
  EXPECT_THAT(refusal("timestamp,duration,num_gpus\n0,1,2\n"),
              HasSubstr("format philly-csv (timestamp duration num_gpus cluster), found no "
                        "'cluster'"));
  EXPECT_THAT(refusal("duration\n121\n122\n"),
              HasSubstr("found a table with the columns duration, of which no format (orrery "
                        "import jobs --help) has half: write a CSV with the columns "
                        "job_id,submit_s,num_gpus,duration_s"));
}

TEST(JobLog, KindsOfGpusAreNamedAndSelected) {
  const std::string text = "JobID|Submit|Start|End|AllocTRES\n1|" + kTimes +
                           "|gres/gpu=2,gres/gpu:a100=2\n2|" + kTimes +
                           "|gres/gpu:h100=4\n3|" + kTimes + "|gres/gpu=1\n";
  const JobLog all = parse_job_log("log.txt", text);
  EXPECT_EQ(all.jobs.size(), 3u);
  EXPECT_THAT(all.quality.notes(),
              ::testing::Contains(HasSubstr("The log names 2 kinds of GPUs (a100, h100)")));
  const JobLog one = parse_job_log("log.txt", text, {.gpu_kind = "a100"});
  EXPECT_EQ(counts(one.quality), "slurm-sacct 3 = 2 + 1 + 0") << "any kind is this one, too";
  try {
    parse_job_log("log.txt", text, {.gpu_kind = "a10"});
    ADD_FAILURE() << "an unknown kind";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("(a100, h100); did you mean 'a100'?"));
  }
}

TEST(JobLog, JobsThatBecomeEligibleLaterEnterTheQueueThen) {
  const JobLog log = parse_job_log(
      "log.txt", "JobID|Submit|Eligible|Start|End|AllocTRES\n"
                 "1|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T08:05:00|"
                 "2024-03-01T10:05:00|gres/gpu=2\n"
                 "2|2024-03-01T08:00:00|2024-03-01T10:05:00|2024-03-01T10:06:00|"
                 "2024-03-01T10:07:00|gres/gpu=2\n"
                 "3|2024-03-01T08:00:00|Unknown|2024-03-01T10:06:00|2024-03-01T10:07:00|gres/gpu=2"
                 "\n");
  EXPECT_THAT(in_short(log), ElementsAre("1 0+7200 x2", "3 0+60 x2", "2 7500+60 x2"));
  EXPECT_EQ(log.jobs[2].recorded_start_s, 7560);
}

TEST(JobLog, ThePrecedingJobOfSwfMustEndFirst) {
  const std::string row = " 0 5 9 4 -1 -1 4 60 -1 1 -1 -1 -1 -1 -1 ";
  const JobLog log = parse_job_log("log.swf", "1" + row + "-1 -1\n2" + row + "1 30\n");
  EXPECT_TRUE(log.jobs[0].after.empty());
  EXPECT_EQ(log.jobs[1].after, "1");
  EXPECT_THAT(log.quality.notes(),
              ::testing::Contains("1 jobs enter the queue after the end of others."));
}

TEST(JobLog, JobsThatWaitForEachOtherAreRefused) {
  const std::string head = "job_id,submit_s,num_gpus,duration_s,after\n";
  EXPECT_THAT(refusal(head + "1,0,1,5,\n2,0,1,5,1 3\n3,0,1,5,2\n"),
              HasSubstr("log.txt:3:1: error: after: expected jobs that can end before this one"));
  const JobLog log = parse_job_log("log.csv", head + "1,0,1,5,\n2,0,1,5,1 77\n");
  EXPECT_EQ(log.jobs[1].after, "1 77");
  EXPECT_THAT(log.quality.notes(),
              ::testing::Contains(HasSubstr("1 dependencies are on jobs that the log lacks")));
}

TEST(JobLog, StandardWorkloadFormat) {
  const JobLog log = load_job_log(kSamples + "log.swf");
  EXPECT_EQ(counts(log.quality), "swf 3 = 2 + 1 + 0");
  EXPECT_THAT(in_short(log), ElementsAre("1 0+600 x16", "3 60+50 x8"));
  EXPECT_EQ(log.jobs[0].requested_s, 900);
  EXPECT_EQ(log.jobs[0].recorded_start_s, 10);
}

TEST(JobLog, Gfs) {
  const JobLog log = load_job_log(kSamples + "gfs.csv");
  EXPECT_EQ(counts(log.quality), "gfs 4 = 2 + 1 + 1");
  EXPECT_THAT(in_short(log), ElementsAre("job-2 0+90 x1", "job-1 60+3600 x32"));
  EXPECT_EQ(log.jobs[1].name, "HP");
  EXPECT_EQ(log.jobs[1].pool, "org-a");
}

TEST(JobLog, InstancesOfRecommendationModels) {
  const JobLog log = load_job_log(kSamples + "dlrm.csv");
  EXPECT_EQ(counts(log.quality), "dlrm 6 = 2 + 3 + 1");
  EXPECT_THAT(in_short(log), ElementsAre("instance_4 0+600 x2", "instance_2 1800+3600 x1"));
  EXPECT_EQ(log.jobs[1].name, "app_0");
  EXPECT_EQ(log.jobs[1].recorded_start_s, 1805);
}

TEST(JobLog, KubernetesAndKueue) {
  const JobLog log = load_job_log(kSamples + "workloads.json");
  EXPECT_EQ(counts(log.quality), "kubernetes 6 = 3 + 2 + 1");
  EXPECT_THAT(in_short(log), ElementsAre("research/eval 0+300 x2", "team/notebook-0 1800+60 x1",
                                         "research/train-llm-7f2a 3600+7200 x32"));
  EXPECT_EQ(log.jobs[2].pool, "h100");
  EXPECT_EQ(log.jobs[2].user, "research");
  EXPECT_EQ(log.jobs[2].recorded_start_s, 3600 + 600);
  EXPECT_EQ(log.quality.first_rejected(0).reason(), "ends before its start");
  EXPECT_EQ(log.quality.first_rejected(0).line(), 40u);
}

TEST(JobLog, WhatIsWrittenIsReadAgain) {
  for (const char* file : {"sacct.txt", "philly.json", "helios.csv", "openb.csv", "log.swf",
                           "gfs.csv", "dlrm.csv", "workloads.json"}) {
    const JobLog log = load_job_log(kSamples + file);
    const JobLog again = parse_job_log("again.csv", job_trace_csv(log.jobs));
    EXPECT_EQ(again.quality.format(), "canonical");
    EXPECT_EQ(in_short(again), in_short(log));
    for (std::size_t i = 0; i < log.jobs.size(); ++i) {
      EXPECT_EQ(again.jobs[i].user, log.jobs[i].user);
      EXPECT_EQ(again.jobs[i].name, log.jobs[i].name);
      EXPECT_EQ(again.jobs[i].pool, log.jobs[i].pool);
      EXPECT_EQ(again.jobs[i].requested_s, log.jobs[i].requested_s);
      EXPECT_EQ(again.jobs[i].after, log.jobs[i].after);
      EXPECT_EQ(again.jobs[i].recorded_start_s, log.jobs[i].recorded_start_s);
    }
  }
}

/// "line:column: message".
std::string problem(const std::string& text, bool strict = false) {
  try {
    parse_job_log("log", text, {.strict = strict});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    if (!error.source_place()) return error.message();
    return std::to_string(error.source_place()->line) + ":" +
           std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "";
}

TEST(JobLog, WhatIsNoLogIsRefusedWithItsPlace) {
  const std::string head = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n";
  const std::string good = "0,1,0,606,vgg19,164,30\n";
  EXPECT_EQ(problem(head + good), "");
  EXPECT_THAT(problem(head + good + "1,8,3"), HasSubstr("3:1: this line has 3 fields"));
  EXPECT_THAT(problem(head + good + "1,8,30,133,\xff,147,23\n"), HasSubstr("3:12: expected UTF"));
  EXPECT_THAT(problem(head + good + "1,8,30,133,v,1e400,23\n"),
              HasSubstr("3:14: duration is 1e400"));
  EXPECT_THAT(problem(head + good + "1,9999999,30,133,v,14,23\n"), HasSubstr("3:3: num_gpu is"));
  EXPECT_THAT(problem("a,b\n1,2\n"), HasSubstr("1:1: expected a job log, found a table with"));
  EXPECT_THAT(problem("1,2\n"), HasSubstr("1:1: expected a job log that begins as one of"));
  EXPECT_THAT(problem(""), HasSubstr("1:1: expected a job log"));
  EXPECT_THAT(problem(head), HasSubstr("expected jobs with GPUs"));
  EXPECT_THAT(problem("[{\"jobid\": 1},\n {\"jobid\": "), HasSubstr("2:"));
  EXPECT_THAT(problem("{\"jobs\": []}"), HasSubstr("a JSON array of jobs"));
  EXPECT_THAT(problem("{\"apiVersion\": \"v1\",\n \"items\": [{\"kind\":"), HasSubstr("2:"));
  EXPECT_THAT(problem("{\"apiVersion\": \"v1\", \"items\": []}"), HasSubstr("expected jobs"));
}

TEST(JobLog, BrokenRowsAreCountedOrRefused) {
  const std::string text =
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
      "0,1,0,606,vgg19,164,30\n1,x,5,606,vgg19,164,30\n2,1,6,1,v,-4,3\n";
  const JobLog log = parse_job_log("log", text);
  EXPECT_EQ(counts(log.quality), "tiresias 3 = 1 + 0 + 2");
  EXPECT_EQ(log.quality.first_rejected(0).line(), 3u);
  EXPECT_EQ(log.quality.first_rejected(0).reason(), "num_gpu must be a number, not 'x'");
  EXPECT_EQ(log.quality.first_rejected(1).reason(), "duration is negative: -4");
  EXPECT_EQ(problem(text, true), "3:3: num_gpu must be a number, not 'x'");
}

TEST(JobLog, AnonymousLogsKeepWhoIsTheSame) {
  JobLog log = load_job_log(kSamples + "sacct.txt");
  anonymize(log.jobs);
  EXPECT_EQ(log.jobs[0].user, log.jobs[1].user);
  EXPECT_NE(log.jobs[0].user, log.jobs[2].user);
  EXPECT_EQ(log.jobs[0].user, "user-1");
  EXPECT_EQ(log.jobs[2].pool, "vc-1");
  EXPECT_EQ(log.jobs[2].id, "2");
  EXPECT_EQ(log.jobs[2].duration_s, 3600);
}

/// The logs of the shared data, read whole: the canonical traces were made from the first one by
/// another program.
TEST(JobLog, TheWholePhillyLogGivesTheTracesThatOthersMadeFromIt) {
  const char* const given = std::getenv("ORRERY_DATA");
  const std::filesystem::path root =
      given != nullptr ? given : std::string(ORRERY_SOURCE_DIR) + "/../shared/data";
  if (!std::filesystem::exists(root / "jobs" / "philly.csv.gz")) {
    GTEST_SKIP() << "philly.csv.gz is not here: set ORRERY_DATA";
  }
  const JobLog log = load_job_log((root / "jobs" / "philly.csv.gz").string());
  EXPECT_EQ(counts(log.quality), "philly-csv 82247 = 82247 + 0 + 0");
  const JobLog small = load_job_log((root / "jobs" / "philly_small.csv").string());
  // The log begins with October: finds its first jobs and reads on from there.
  std::vector<TraceJob> vc;
  for (const TraceJob& job : log.jobs) {
    if (job.pool == "103959") vc.push_back(job);
  }
  std::size_t begin = 0;
  const auto follows = [&](std::size_t at) {
    for (std::size_t i = 0; i < small.jobs.size(); ++i) {
      const TraceJob &a = vc[at + i], &b = small.jobs[i];
      if (a.submit_s - vc[at].submit_s != b.submit_s || a.gpus != b.gpus ||
          a.duration_s != b.duration_s) {
        return false;
      }
    }
    return true;
  };
  while (begin + small.jobs.size() <= vc.size() && !follows(begin)) ++begin;
  EXPECT_LE(begin + small.jobs.size(), vc.size()) << "the same 1,450 jobs in the same order";
}

}  // namespace
}  // namespace orrery
