"""From options to a loaded pair, and from a prompt to the events of a reply.

options                           what to load and how to decode
pair_resolution, pair_loader      from names to folders; from folders to a target and its drafters
memory_check                      whether they fit, and with how long a context
loaded_pair                       a target and a drafter that are loaded, and earlier replies to copy from
learnt_rounds                     the policy of each reply, and what earlier replies have taught it
reply_runner                      a reply that goes on without a drafter that fails
measured_reply                    a reply for races and benchmarks
verification                      a reply that is compared with plain decoding
reply_events, tool_call_reader    the events of a reply; the calls of tools in it
conversation                      a conversation in the terminal
kept_conversation_files           caches of conversations on disk, for after a restart
cluster, cluster_rank, host_file  the machines that share a target
digests, environment, machine     what a reply or a measurement was made with
hub_token                         the hub's token, in the keychain
"""
