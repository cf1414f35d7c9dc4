"""The `README.txt` of a bundle: commands that verify the bundle without this program."""

TEXT = """\
This is an audit bundle of LUCIUS, format lucius-bundle/1: the histories of the jobs of one tenant in a window of time.

  lucius-verify BUNDLE --key KEY.pem     verifies the whole bundle (packages/lucius-verify of a checkout)

Files, as JSON Lines (RFC 8785, one object a line):

  manifest.json      the tenant, the window, totals, and the SHA-256, bytes and rows of each file
  jobs.jsonl         each job with its steps, in order of job_id
  history.jsonl      the events of these jobs, in order of (job_id, seq)
  heads.jsonl        {"job_id" or "log", "seq", "hash"} of every job and log that the server signed for the window
  throttles.jsonl    the logs of quotas and incidents
  links.jsonl        {"from", "to", "kind"}: redrives, replays and dependencies
  anchors/           the heads that changed on each day, as the server anchored them
  signatures/        the signed pages of heads, the signed anchors, and the public keys

Unpack the bundle with tar, and run these commands in its folder. They need bash with jq, base64, sha256sum and OpenSSL.

1. The files are those of the manifest:

$ jq -r '.files | to_entries[] | "\\(.value.sha256)  \\(.key)"' manifest.json | sha256sum --check --quiet

2. The first page of heads is signed. The signature is over DSSE's encoding of the payload, which printf makes. Take the
   public key from a source that you trust, not from this bundle. The id of the key is the SHA-256 of its DER form:

$ KEY=${KEY:-key.pem}
$ openssl pkey -pubin -in "$KEY" -outform DER | openssl dgst -sha256 -r | cut -d' ' -f1
$ PAGE=signatures/heads-000001.json
$ jq -r .payload "$PAGE" | base64 -d > payload.json
$ jq -r '.signatures[0].sig' "$PAGE" | base64 -d > signature.der
$ TYPE=$(jq -r .payloadType "$PAGE")
$ { printf 'DSSEv1 %d %s %d ' "${#TYPE}" "$TYPE" "$(wc -c < payload.json)"; cat payload.json; } > signed.bin
$ openssl dgst -sha256 -verify "$KEY" -signature signature.der signed.bin

3. The heads of the page are those of the histories. A head names a job, the number of its event and its hash:

$ jq -c '.predicate.heads[] | select(.job_id)' payload.json | while read -r HEAD; do
$   jq -c --argjson head "$HEAD" 'select(.job_id == $head.job_id and .seq == $head.seq and .hash == $head.hash)' \\
$     history.jsonl | grep -q . || echo "missing: $HEAD"
$ done

4. Each event names the hash of the previous event. The hash of an event is the SHA-256 of its fields without hash, data
   and salt, but with data_digest, sorted by name. data_digest is the SHA-256 of the bytes of salt and of data. `jq -S`
   writes the canonical JSON if no number is a fraction, as here for the first event of the bundle:

$ head -n 1 history.jsonl > event.json
$ DIGEST=$(jq -r '.data_digest // empty' event.json)
$ if [ -z "$DIGEST" ]; then
$   SALT=$(jq -r .salt event.json | sed 's/../\\\\x&/g')
$   DIGEST=$({ printf "$SALT"; jq -cSj .data event.json; } | sha256sum | cut -d' ' -f1)
$ fi
$ jq -cSj --arg digest "$DIGEST" 'del(.hash, .data, .salt) | .data_digest = $digest' event.json > hashed.json
$ sha256sum hashed.json | cut -d' ' -f1
$ jq -r .hash event.json

   The last two lines are equal.
"""
