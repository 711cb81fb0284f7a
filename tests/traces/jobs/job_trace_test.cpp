#include "traces/jobs/job_trace.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <zlib.h>

#include "core/error.hpp"

namespace orrery {
namespace {

class JobTrace : public testing::Test {
 protected:
  ~JobTrace() override { std::remove(path_.c_str()); }

  std::vector<TraceJob> load(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return load_job_trace(path_);
  }
  /// "line:column: message" of the error.
  std::string problem(const std::string& text) {
    try {
      load(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      if (!error.source_place()) return error.message();
      EXPECT_EQ(error.source_place()->file, path_);
      return std::to_string(error.source_place()->line) + ":" +
             std::to_string(error.source_place()->column) + ": " + error.message();
    }
    return "";
  }

  std::string path_ = testing::TempDir() + "orrery_trace_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";
};

TEST_F(JobTrace, ByteOrderMarkIsNoPartOfTheHeader) {
  EXPECT_EQ(load("\xEF\xBB\xBFjob_id,submit_s,num_gpus,duration_s\na,0,1,5\n").size(), 1u);
}

TEST_F(JobTrace, AHeaderAloneIsNoTrace) {
  EXPECT_EQ(problem("job_id,submit_s,num_gpus,duration_s\n"), "1:1: holds no jobs, only a header");
}

TEST_F(JobTrace, AFolderIsNoTrace) {
  try {
    load_job_trace(testing::TempDir());
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot be read: Is a directory");
  }
}

TEST_F(JobTrace, ColumnsInAnyOrderAndMoreThanNeeded) {
  const auto jobs =
      load("duration_s,user,vc,num_gpus,submit_s,job_id\r\n5,u,a,2,1,x\r\n7,u,,1,0,y");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].id, "x");
  EXPECT_EQ(jobs[0].pool, "a");
  EXPECT_EQ(jobs[0].gpus, 2u);
  EXPECT_EQ(jobs[0].submit_s, 1);
  EXPECT_EQ(jobs[1].duration_s, 7);
}

TEST_F(JobTrace, PackedIsTheSame) {
  const std::string text = "job_id,submit_s,num_gpus,duration_s,vc\n0,3,4,5,v\n";
  gzFile file = gzopen(path_.c_str(), "wb");
  gzwrite(file, text.data(), unsigned(text.size()));
  gzclose(file);
  const auto jobs = load_job_trace(path_);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].submit_s, 3);
}

TEST_F(JobTrace, PackedAndCutShortIsRefused) {
  std::string text = "job_id,submit_s,num_gpus,duration_s,vc\n";
  for (int i = 0; i < 3000; ++i) text += std::to_string(i * 7919) + ",3,4,5,v\n";
  gzFile file = gzopen(path_.c_str(), "wb");
  gzwrite(file, text.data(), unsigned(text.size()));
  gzclose(file);
  std::ifstream in(path_, std::ios::binary);
  std::string packed{std::istreambuf_iterator<char>(in), {}};
  in.close();
  EXPECT_NE(problem(packed.substr(0, packed.size() / 2)), "");
}

TEST_F(JobTrace, ProblemsHaveTheirPlace) {
  const std::string header = "job_id,submit_s,num_gpus,duration_s,vc\n";
  EXPECT_EQ(problem(header + "0,0,1,5,a\n1,x,1,5,a\n").substr(0, 4), "3:3:");
  EXPECT_EQ(problem(header + "0,0,1.5,5,a\n").substr(0, 4), "2:5:");
  EXPECT_EQ(problem(header + "0,0,0,5,a\n").substr(0, 4), "2:5:");
  EXPECT_EQ(problem(header + "0,-1,1,5,a\n").substr(0, 4), "2:3:");
  EXPECT_EQ(problem(header + "0,0,1,99999999999999999999,a\n").substr(0, 4), "2:7:");
  EXPECT_EQ(problem(header + "0,0,1,5\n").substr(0, 4), "2:1:");
  EXPECT_EQ(problem(header + ",0,1,5,a\n").substr(0, 4), "2:1:");
  EXPECT_NE(problem("job_id,submit_s,duration_s\n").find("num_gpus"), std::string::npos);
  EXPECT_NE(problem("job_id,job_id,submit_s,num_gpus,duration_s\n").find("twice"),
            std::string::npos);
  EXPECT_NE(problem(""), "");
}

TEST_F(JobTrace, SizesAreReadAndWritten) {
  const std::string header = "job_id,submit_s,num_gpus,duration_s,scaling,max_gpus,min_gpus\n";
  const auto jobs = load(header + "a,0,8,5,1:2 16:9,16,2\nb,0,8,5,,,4\nc,0,8,5,,,\n");
  EXPECT_EQ(jobs[0].sizes.str(), "2 16 1:2 16:9");
  EXPECT_EQ(jobs[1].sizes.str(), "4 8");
  EXPECT_TRUE(jobs[2].sizes.empty());
  const std::string text = job_trace_csv(jobs);
  EXPECT_NE(text.find(",after,qos,gpu_kind,speeds,min_gpus,max_gpus,scaling\n"), std::string::npos);
  EXPECT_NE(text.find(",,2,16,1:2 16:9\n"), std::string::npos);
  EXPECT_EQ(job_trace_csv(load(text)), text);
  EXPECT_EQ(problem(header + "a,0,8,5,,7,\n"),
            "2:10: max_gpus is 7, less than the 8 GPUs of the job");
  EXPECT_EQ(problem(header + "a,0,8,5,fast,9,\n").substr(0, 22), "2:9: scaling must be a");
}

TEST_F(JobTrace, KindsAreReadAndWritten) {
  const std::string header = "job_id,submit_s,num_gpus,duration_s,speeds,gpu_kind\n";
  const auto jobs = load(header + "a,0,8,5,A100:1 V100:0.45,V100|A100\nb,0,8,5,,T4\nc,0,8,5,,\n");
  EXPECT_EQ(jobs[0].kinds.str(), "V100|A100 A100:1 V100:0.45");
  EXPECT_EQ(jobs[1].kinds.str(), "T4");
  EXPECT_TRUE(jobs[2].kinds.empty());
  const std::string text = job_trace_csv(jobs);
  EXPECT_NE(text.find(",V100|A100,A100:1 V100:0.45,,,\n"), std::string::npos);
  EXPECT_EQ(job_trace_csv(load(text)), text);
  EXPECT_EQ(problem(header + "a,0,8,5,T4:1,V100\n"),
            "2:9: speeds lacks the kind 'V100' of gpu_kind 'V100'");
  EXPECT_EQ(problem(header + "a,0,8,5,,V100|\n").substr(0, 19), "2:10: gpu_kind must");
}

TEST_F(JobTrace, AMissingFileIsBadInput) {
  EXPECT_THROW(load_job_trace("/nowhere/trace.csv"), Error);
}

}  // namespace
}  // namespace orrery
