{const table=one("table"),tiles=one("#tiles");
const sized=size=>(address,image)=>image.src=address+"?scale="+size+"x"+size+"&format=auto";
if(tiles){
const on=()=>table.classList.contains("tiles");
tiles.hidden=false;
tiles.ariaPressed=on();
tiles.addEventListener("click",()=>{table.classList.toggle("tiles");tiles.ariaPressed=on();for(const image of table.querySelectorAll("td img"))sized(on()?384:96)(image.closest("a").pathname,image)})}
const view=document.createElement("dialog");
view.innerHTML='<figure><img alt=""></figure><button class="step" aria-label="Previous">‹</button><button class="step" aria-label="Next">›</button><footer><bdi></bdi><span></span><a download>Download the original</a><button>Close</button></footer>';
document.body.append(view);
const image=view.querySelector("img"),figure=view.querySelector("figure"),[previous,next,shut]=view.querySelectorAll("button"),title=view.querySelector("bdi"),place=view.querySelector("span"),original=view.querySelector("a");
let at=0;
const pictures=()=>shown().map(({link})=>link).filter(link=>link.matches(".p"));
const load=(link,image)=>{if(link.querySelector("img"))sized(Math.ceil(Math.max(innerWidth,innerHeight)*devicePixelRatio))(link.pathname,image);else image.src=link.href};
const open=to=>{const all=pictures();if(!all[to])return;at=to;const link=all[at];const large=new Image,shown=link.querySelector("img")?.currentSrc;figure.ariaBusy=true;large.onload=()=>{if(at===to){image.src=large.src;figure.ariaBusy=false}};large.onerror=()=>{if(at===to){image.src=link.href;figure.ariaBusy=false}};load(link,large);if(shown)image.src=shown;else image.removeAttribute("src");title.textContent=image.alt=link.textContent;place.textContent=at+1+" of "+all.length;original.href=link.href;previous.disabled=!at;next.disabled=at+1===all.length;if(all[at+1])load(all[at+1],new Image);if(!view.open)view.showModal()};
document.addEventListener("click",event=>{const link=event.target.closest("a.p");if(!link||event.ctrlKey||event.metaKey||event.shiftKey||event.altKey)return;event.preventDefault();open(pictures().indexOf(link))});
previous.addEventListener("click",()=>open(at-1));
next.addEventListener("click",()=>open(at+1));
shut.addEventListener("click",()=>view.close());
view.addEventListener("click",({target})=>{if(target===view||target.matches("figure"))view.close()});
view.addEventListener("close",()=>{image.removeAttribute("src");pictures()[at]?.focus()});
view.addEventListener("keydown",event=>{const to={ArrowLeft:at-1,ArrowRight:at+1,Home:0,End:pictures().length-1}[event.key];if(to===undefined)return;event.preventDefault();open(to)});
let from=null;
view.addEventListener("pointerdown",event=>from=event.pointerType==="touch"?event.clientX:null);
view.addEventListener("pointerup",({clientX})=>{if(from!==null&&Math.abs(clientX-from)>50)open(at+(clientX<from?1:-1));from=null})}
