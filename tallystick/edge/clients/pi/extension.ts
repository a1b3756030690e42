// Tells a session of Pi what waits in its agent's inbox, and whom a prompt names; wakes it when something comes while it
// is idle. Written by `tally install`. It runs the hook of Tallystick, which costs next to nothing while nothing is
// unseen; whatever goes wrong, Pi goes on.
import { type ChildProcess, spawn } from "node:child_process"
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent"

const HOOK = @HOOK_FILE@
const SECONDS = 5

type Ended = { code: number | null; out: string; err: string }

function run(event: string, said: object, cwd: string, began: (child: ChildProcess) => void = () => {}): Promise<Ended> {
  return new Promise((resolve) => {
    let out = ""
    let err = ""
    const child = spawn("sh", [HOOK, event], { cwd, stdio: ["pipe", "pipe", "pipe"] })
    child.on("error", () => resolve({ code: null, out: "", err: "" }))
    child.on("close", (code) => resolve({ code, out, err }))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => (out += data))
    child.stderr.on("data", (data) => (err += data))
    child.stdin.end(JSON.stringify(said))
    began(child)
  })
}

async function ask(event: string, said: object, cwd: string): Promise<string> {
  let late: ReturnType<typeof setTimeout> | undefined
  const { out } = await run(event, said, cwd, (child) => {
    late = setTimeout(() => child.kill("SIGKILL"), SECONDS * 1000)
  })
  clearTimeout(late)
  try {
    const answer = JSON.parse(out)
    return answer.reason ?? answer.hookSpecificOutput?.additionalContext ?? ""
  } catch {
    return ""
  }
}

export default function (pi: ExtensionAPI) {
  let waiting: ChildProcess | undefined
  let isHeld = false // it goes on only because of us

  const said = (ctx: ExtensionContext, more: object = {}) => ({
    session_id: ctx.sessionManager.getSessionId(),
    transcript_path: ctx.sessionManager.getSessionFile() ?? "",
    cwd: ctx.cwd,
    ...more,
  })

  // One hook waits beside the session. Its exit code 2 means: take this text in. Then the next one waits.
  const wait = async (ctx: ExtensionContext) => {
    waiting?.kill()
    let mine: ChildProcess | undefined
    const { code, err } = await run("wait", said(ctx), ctx.cwd, (child) => (mine = waiting = child))
    if (mine !== waiting) return
    waiting = undefined
    if (code === 2 && err.trim()) pi.sendUserMessage(err.trim(), { deliverAs: "followUp" })
  }

  pi.on("session_start", async (_event, ctx) => {
    void wait(ctx)
  })
  pi.on("session_shutdown", async () => {
    const child = waiting
    waiting = undefined
    child?.kill()
  })
  pi.on("before_agent_start", async (event, ctx) => {
    if (event.messageType !== "user") return
    const content = await ask("prompt", said(ctx, { prompt: event.prompt }), ctx.cwd)
    if (content) return { message: { customType: "tallystick", content, display: true } }
  })
  pi.on("agent_before_settle", async (event, ctx) => {
    const content = await ask("stop", said(ctx, { stop_hook_active: isHeld }), ctx.cwd)
    isHeld = content !== ""
    if (!content) return
    const entry = { type: "custom_message" as const, customType: "tallystick", content, display: true }
    return { entries: [...event.entries, entry], continue: true }
  })
  pi.on("agent_settled", async (_event, ctx) => {
    isHeld = false
    void wait(ctx) // anew: that it waits again says that the turn is over
  })
}
