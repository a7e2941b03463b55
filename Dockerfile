# Two images, each one static program on an empty file system:
#
#   docker build --target operator -t refrain/operator .
#   docker build --target router -t refrain/router .
#
# Programs that are compiled already can take the place of the compile stage: --build-context binaries=FOLDER.
FROM docker.io/library/rust:1.95 AS compile
WORKDIR /refrain
COPY . .
# An explicit target keeps the static flag away from build scripts and macros, which are loaded dynamically.
RUN target=$(rustc -vV | sed -n 's/^host: //p') \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$target" \
       --package refrain-operator --package refrain-router \
    && mkdir /binaries && cp target/"$target"/release/refrain-operator target/"$target"/release/refrain-router /binaries

FROM scratch AS binaries
COPY --from=compile /binaries/ /

FROM scratch AS operator
COPY --from=binaries --chmod=0755 /refrain-operator /refrain-operator
USER 65532:65532
ENTRYPOINT ["/refrain-operator"]

FROM scratch AS router
COPY --from=binaries --chmod=0755 /refrain-router /refrain-router
USER 65532:65532
ENTRYPOINT ["/refrain-router"]
