-- Lease at submission for jobs that Orrery manages: they may not start for LEASE seconds, in which
-- `orrery cluster slurm` sees them, and start by themselves if it does not run. Use: copy to the
-- folder of slurm.conf, set PARTITIONS and LEASE (the value of --lease), add
-- "JobSubmitPlugins=lua" to slurm.conf, and restart slurmctld.
local PARTITIONS = { orrery = true }
local LEASE = 20

function slurm_job_submit(job, partitions, uid)
  local earliest = os.time() + LEASE
  local name = job.partition
  if name == nil then
    for each, partition in pairs(partitions) do
      if partition.flag_default == 1 then name = each end
    end
  end
  if PARTITIONS[name] and (job.begin_time == nil or job.begin_time < earliest) then
    job.begin_time = earliest
  end
  return slurm.SUCCESS
end

function slurm_job_modify(request, job, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
