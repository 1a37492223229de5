# The one image of Holdfast: the manager, and the agent that it copies into the pods of its Jobs. `make build` compiles
# both, static, before this runs. No shell, no libc, no CA bundle: the agent has the well-known authorities compiled in.
FROM scratch
COPY build/manager build/agent /
USER 65532:65532
ENTRYPOINT ["/manager"]
