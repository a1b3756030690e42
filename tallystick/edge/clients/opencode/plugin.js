// Tells a session of OpenCode what waits in its agent's inbox, and whom a prompt names. Written by `tally install`.
// It runs the hook of Tallystick, which costs next to nothing while nothing is unseen; whatever goes wrong, OpenCode goes on.
import { spawn } from "node:child_process"

const HOOK = @HOOK_FILE@
const SECONDS = 5

const ask = (event, said) =>
  new Promise((resolve) => {
    let out = ""
    const child = spawn("sh", [HOOK, event], { cwd: said.cwd, stdio: ["pipe", "pipe", "ignore"] })
    const late = setTimeout(() => child.kill("SIGKILL"), SECONDS * 1000)
    const end = () => {
      clearTimeout(late)
      try {
        const answer = JSON.parse(out)
        resolve(answer.reason ?? answer.hookSpecificOutput?.additionalContext ?? "")
      } catch {
        resolve("")
      }
    }
    child.on("error", end)
    child.on("close", end)
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => (out += data))
    child.stdin.end(JSON.stringify(said))
  })

export const Tallystick = async ({ directory, client }) => {
  const held = new Map() // sessions that go on only because of us
  return {
    "chat.message": async (input, output) => {
      const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      if (!texts.length) return // our own words
      const prompt = texts.map((part) => part.text).join("\n")
      const told = await ask("prompt", { session_id: input.sessionID, cwd: directory, prompt })
      const last = output.parts.at(-1)
      if (told && last)
        output.parts.push({ ...pick(last), id: `${last.id}t`, type: "text", text: told, synthetic: true })
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const id = event.properties.sessionID
      const said = { session_id: id, cwd: directory, stop_hook_active: held.delete(id) }
      const told = await ask("stop", said)
      if (!told) return
      held.set(id, true)
      await client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text: told, synthetic: true }] } })
    },
  }
}

const pick = ({ sessionID, messageID }) => ({ sessionID, messageID })
